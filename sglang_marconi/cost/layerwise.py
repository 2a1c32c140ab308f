"""The paper's cost model by kind of layer, which the ``paper-artifact`` preset needs."""

from __future__ import annotations

import dataclasses

from sglang_marconi.cost.paper import paper_cost
from sglang_marconi.cost.prefix_cost import PrefixCost


@dataclasses.dataclass(frozen=True)
class LayerwiseCost:
    """FLOPs of table 1 by kind of layer; ``total`` sums them up.

    Args:
        total: the whole model.
        ssm_flops_per_token: all SSM layers.
        attention_linear_flops: one attention layer, times tokens.
        attention_quadratic_flops: one attention layer, times tokens squared.
        attention_layers: how many.
        mlp_flops_per_token: one MLP layer.
        mlp_layers: how many.
    """

    total: PrefixCost
    ssm_flops_per_token: float
    attention_linear_flops: float
    attention_quadratic_flops: float
    attention_layers: int
    mlp_flops_per_token: float
    mlp_layers: int


def paper_layerwise_cost(
    attention_layers: int, ssm_layers: int, mlp_layers: int, hidden: int, state_size: int
) -> LayerwiseCost:
    """Marconi, table 1; arguments as in ``paper_cost``."""
    d, n = hidden, state_size
    return LayerwiseCost(
        total=paper_cost(attention_layers, ssm_layers, mlp_layers, hidden, state_size),
        ssm_flops_per_token=ssm_layers * (12 * d * d + 16 * d * n + 10 * d),
        attention_linear_flops=8 * d * d,
        attention_quadratic_flops=4 * d,
        attention_layers=attention_layers,
        mlp_flops_per_token=16 * d * d,
        mlp_layers=mlp_layers,
    )


PAPER_7B_LAYERWISE = paper_layerwise_cost(attention_layers=4, ssm_layers=24, mlp_layers=28, hidden=4096, state_size=128)
