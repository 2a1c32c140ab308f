"""The cost model of the paper: Marconi, table 1, and its 7B hybrid."""

from __future__ import annotations

from sglang_marconi.cost.prefix_cost import PrefixCost

_BYTES = 2
_CONV_KERNEL = 4


def paper_cost(attention_layers: int, ssm_layers: int, mlp_layers: int, hidden: int, state_size: int) -> PrefixCost:
    """FLOPs and bytes by the formulas of table 1, half precision.

    Args:
        attention_layers: layers with ``8 L D^2 + 4 L^2 D`` FLOPs and ``4 L D`` bytes of KV.
        ssm_layers: layers with ``12 L D^2 + 16 L D N + 10 L D`` FLOPs, ``2 D N`` bytes of state, and
            a convolution over ``2 D + 2 N`` channels.
        mlp_layers: layers with ``16 L D^2`` FLOPs.
        hidden: D.
        state_size: N.
    """
    d, n = hidden, state_size
    ssm_flops = 12 * d * d + 16 * d * n + 10 * d
    conv_bytes = _BYTES * _CONV_KERNEL * (2 * d + 2 * n)
    return PrefixCost(
        linear_flops_per_token=attention_layers * 8 * d * d + ssm_layers * ssm_flops + mlp_layers * 16 * d * d,
        quadratic_flops_per_token_squared=attention_layers * 4 * d,
        kv_bytes_per_token=attention_layers * 2 * _BYTES * d,
        state_bytes=ssm_layers * (_BYTES * d * n + conv_bytes),
    )


PAPER_7B = paper_cost(attention_layers=4, ssm_layers=24, mlp_layers=28, hidden=4096, state_size=128)
