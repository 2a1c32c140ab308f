"""FLOPs and bytes of a prefix: the paper's formulas and real models."""

from sglang_marconi.cost.layers import Bytes
from sglang_marconi.cost.model import cost_from_config
from sglang_marconi.cost.paper import PAPER_7B, paper_cost
from sglang_marconi.cost.prefix_cost import PrefixCost

__all__ = ["PAPER_7B", "Bytes", "PrefixCost", "cost_from_config", "paper_cost"]
