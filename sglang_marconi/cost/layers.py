"""FLOPs and bytes of one layer, by kind.

A matrix of m x n counts 2mn FLOPs a token. Attention counts the full score matrix, as Marconi's
table 1 and torch's FLOP counter do. The recurrence of Mamba-2 counts ``8 d N + 5 d`` FLOPs a token
(inner width d, state size N), which is the table's ``16 D N + 10 D`` with d = 2 D; Mamba-1 counts the same.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Bytes:
    """Bytes of one element of each kind of cached tensor, and over how many ranks the tensors are split.

    With more than one rank all byte counts are one rank's, which is what the memory of one GPU holds; FLOPs stay
    the whole model's. Heads are split; KV heads and B/C groups that are fewer than the ranks are repeated.

    Args:
        kv: of KV; 1 for an fp8 KV cache.
        conv: of the convolution's window.
        state: of the recurrent state (``--mamba-ssm-dtype``).
        ranks: tensor parallel size (``--tp-size``).
    """

    kv: int = 2
    conv: int = 2
    state: int = 4
    ranks: int = 1

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name} must be >= 1, got {getattr(self, field.name)!r}")

    def share(self, what: str, count: int) -> int:
        """One rank's part of heads or channels that every rank has equally many of.

        Raises:
            ValueError: they cannot be split evenly.
        """
        if count % self.ranks:
            raise ValueError(f"tensor parallel size {self.ranks} does not divide {count} {what}")
        return count // self.ranks

    def kv_heads(self, count: int) -> int:
        """One rank's KV heads; each rank has at least one."""
        return 1 if count < self.ranks else self.share("KV heads", count)

    def groups(self, count: int) -> int:
        """B/C groups of all ranks together, with those that are repeated so that each rank has whole ones."""
        return count if count % self.ranks == 0 else self.ranks


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

    def __rmul__(self, count: int) -> LayerCost:
        return LayerCost(
            count * self.linear_flops,
            count * self.quadratic_flops,
            count * self.kv_bytes,
            count * self.state_bytes,
        )


def attention(
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    size: Bytes,
    gated: bool = False,
    input_width: int | None = None,
) -> LayerCost:
    """Grouped-query attention.

    Args:
        hidden: width of the output.
        heads: of queries.
        kv_heads: of keys and values.
        head_dim: of both.
        size: of the elements.
        gated: doubles the query projection (Qwen3-Next's output gate).
        input_width: width of the input, if it is not ``hidden`` (Zamba2).
    """
    query, kv = heads * head_dim, kv_heads * head_dim
    projections = (input_width or hidden) * (query * (2 if gated else 1) + 2 * kv) + query * hidden
    return LayerCost(
        linear_flops=2 * projections,
        quadratic_flops=4 * query,
        kv_bytes=2 * size.kv_heads(kv_heads) * head_dim * size.kv,
    )


def latent_attention(
    hidden: int,
    heads: int,
    nope_dim: int,
    rope_dim: int,
    value_dim: int,
    kv_rank: int,
    query_rank: int | None,
    size: Bytes,
) -> LayerCost:
    """Multi-head latent attention, computed head by head as in a prefill; the cached latent is whole on every rank."""
    query = heads * (nope_dim + rope_dim)
    query_projection = hidden * query if query_rank is None else query_rank * (hidden + query)
    projections = (
        query_projection
        + hidden * (kv_rank + rope_dim)
        + kv_rank * heads * (nope_dim + value_dim)
        + heads * value_dim * hidden
    )
    return LayerCost(
        linear_flops=2 * projections,
        quadratic_flops=2 * query + 2 * heads * value_dim,
        kv_bytes=(kv_rank + rope_dim) * size.kv,
    )


def mlp(hidden: int, intermediate: int, gated: bool = True) -> LayerCost:
    """A dense MLP, or the active experts of one taken together."""
    return LayerCost(linear_flops=2 * (3 if gated else 2) * hidden * intermediate)


def router(hidden: int, experts: int) -> LayerCost:
    """The scores of all experts."""
    return LayerCost(linear_flops=2 * hidden * experts)


def mamba1(hidden: int, inner: int, state: int, conv_kernel: int, dt_rank: int, size: Bytes) -> LayerCost:
    """Mamba-1: projections, a causal convolution over x alone, and a state for each channel."""
    projections = hidden * 2 * inner + inner * (dt_rank + 2 * state) + dt_rank * inner + inner * hidden
    channels = size.share("Mamba channels", inner)
    return LayerCost(
        linear_flops=2 * projections + 2 * conv_kernel * inner + 8 * inner * state + 5 * inner,
        state_bytes=channels * (conv_kernel - 1) * size.conv + channels * state * size.state,
    )


def mamba2(hidden: int, inner: int, heads: int, groups: int, state: int, conv_kernel: int, size: Bytes) -> LayerCost:
    """Mamba-2: projections, a causal convolution over x, B and C, and the state recurrence."""
    conv_dim = inner + 2 * groups * state
    projections = hidden * (inner + conv_dim + heads) + inner * hidden
    size.share("Mamba heads", heads)
    rank_conv_dim = size.share("channels of the convolution", inner + 2 * size.groups(groups) * state)
    return LayerCost(
        linear_flops=2 * projections + 2 * conv_kernel * conv_dim + 8 * inner * state + 5 * inner,
        state_bytes=rank_conv_dim * (conv_kernel - 1) * size.conv + inner // size.ranks * state * size.state,
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
    size.share("value heads", value_heads)
    rank_conv_dim = size.share("channels of the convolution", 2 * size.groups(key_heads) * key_dim + values)
    return LayerCost(
        linear_flops=2 * projections + 2 * conv_kernel * conv_dim + 7 * state,
        state_bytes=rank_conv_dim * (conv_kernel - 1) * size.conv + state // size.ranks * size.state,
    )


def kimi_delta_attention(hidden: int, heads: int, head_dim: int, conv_kernel: int, size: Bytes) -> LayerCost:
    """Kimi delta attention: the delta net with a decay for each key channel; decay and gate have low rank."""
    width = heads * head_dim
    low_rank = 2 * (hidden * head_dim + head_dim * width)
    projections = 3 * hidden * width + low_rank + hidden * heads + width * hidden
    state = heads * head_dim * head_dim
    channels = size.share("heads of the delta net", heads) * head_dim
    return LayerCost(
        linear_flops=2 * projections + 2 * conv_kernel * 3 * width + 7 * state,
        state_bytes=3 * channels * (conv_kernel - 1) * size.conv + state // size.ranks * size.state,
    )


def lightning_attention(hidden: int, heads: int, head_dim: int, size: Bytes) -> LayerCost:
    """Linear attention with a fixed decay and an output gate, without a convolution."""
    width = heads * head_dim
    state = heads * head_dim * head_dim
    size.share("heads of linear attention", heads)
    return LayerCost(
        linear_flops=2 * 5 * hidden * width + 5 * state,
        state_bytes=state // size.ranks * size.state,
    )


def short_conv(hidden: int, conv_kernel: int, size: Bytes) -> LayerCost:
    """LFM2's gated short convolution: its state is the window alone."""
    return LayerCost(
        linear_flops=2 * 4 * hidden * hidden + 2 * conv_kernel * hidden,
        state_bytes=size.share("channels of the convolution", hidden) * (conv_kernel - 1) * size.conv,
    )
