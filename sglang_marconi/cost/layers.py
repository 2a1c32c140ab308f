"""FLOPs and bytes of one layer, by kind.

A matrix of m x n counts 2mn FLOPs a token. Attention counts the full score matrix, as Marconi's
table 1 and torch's FLOP counter do. The recurrence of Mamba-2 counts ``8 d N + 5 d`` FLOPs a token
(inner width d, state size N), which is the table's ``16 D N + 10 D`` with d = 2 D.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Bytes:
    """Bytes of one element of each kind of cached tensor."""

    kv: int = 2
    conv: int = 2
    state: int = 4


@dataclasses.dataclass(frozen=True)
class LayerCost:
    """FLOPs per token, FLOPs per token squared, KV bytes per token, state bytes; layers add up."""

    linear_flops: float = 0.0
    quadratic_flops: float = 0.0
    kv_bytes: int = 0
    state_bytes: int = 0

    def __add__(self, other: LayerCost) -> LayerCost:
        return LayerCost(
            self.linear_flops + other.linear_flops,
            self.quadratic_flops + other.quadratic_flops,
            self.kv_bytes + other.kv_bytes,
            self.state_bytes + other.state_bytes,
        )


def attention(hidden: int, heads: int, kv_heads: int, head_dim: int, size: Bytes, gated: bool = False) -> LayerCost:
    """Grouped-query attention; ``gated`` doubles the query projection (Qwen3-Next's output gate)."""
    query, kv = heads * head_dim, kv_heads * head_dim
    projections = hidden * (query * (2 if gated else 1) + 2 * kv) + query * hidden
    return LayerCost(linear_flops=2 * projections, quadratic_flops=4 * query, kv_bytes=2 * kv * size.kv)


def mlp(hidden: int, intermediate: int, gated: bool = True) -> LayerCost:
    """A dense MLP, or the active experts of one taken together."""
    return LayerCost(linear_flops=2 * (3 if gated else 2) * hidden * intermediate)


def mamba2(hidden: int, inner: int, heads: int, groups: int, state: int, conv_kernel: int, size: Bytes) -> LayerCost:
    """Mamba-2: projections, a causal convolution over x, B and C, and the state recurrence."""
    conv_dim = inner + 2 * groups * state
    projections = hidden * (inner + conv_dim + heads) + inner * hidden
    return LayerCost(
        linear_flops=2 * projections + 2 * conv_kernel * conv_dim + 8 * inner * state + 5 * inner,
        state_bytes=conv_dim * (conv_kernel - 1) * size.conv + inner * state * size.state,
    )


def gated_delta_net(
    hidden: int,
    key_heads: int,
    value_heads: int,
    key_dim: int,
    value_dim: int,
    conv_kernel: int,
    size: Bytes,
) -> LayerCost:
    """Gated delta net: the state is read, corrected, decayed and read again at each token."""
    keys, values = key_heads * key_dim, value_heads * value_dim
    conv_dim = 2 * keys + values
    projections = hidden * (conv_dim + values + 2 * value_heads) + values * hidden
    state = value_heads * key_dim * value_dim
    return LayerCost(
        linear_flops=2 * projections + 2 * conv_kernel * conv_dim + 7 * state,
        state_bytes=conv_dim * (conv_kernel - 1) * size.conv + state * size.state,
    )


def short_conv(hidden: int, conv_kernel: int, size: Bytes) -> LayerCost:
    """LFM2's gated short convolution: its state is the window alone."""
    return LayerCost(
        linear_flops=2 * 4 * hidden * hidden + 2 * conv_kernel * hidden,
        state_bytes=hidden * (conv_kernel - 1) * size.conv,
    )
