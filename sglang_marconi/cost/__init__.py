"""FLOPs and bytes of a prefix: the paper's formulas and real models."""

from sglang_marconi.cost.layers import Bytes
from sglang_marconi.cost.layerwise import PAPER_7B_LAYERWISE, LayerwiseCost, paper_layerwise_cost
from sglang_marconi.cost.model import DTYPE_BYTES, cost_from_config, element_bytes
from sglang_marconi.cost.paper import PAPER_7B, paper_cost
from sglang_marconi.cost.prefix_cost import PrefixCost

__all__ = [
    "DTYPE_BYTES",
    "PAPER_7B",
    "PAPER_7B_LAYERWISE",
    "Bytes",
    "LayerwiseCost",
    "PrefixCost",
    "cost_from_config",
    "element_bytes",
    "paper_cost",
    "paper_layerwise_cost",
]
