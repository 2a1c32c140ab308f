"""The joint input projection of a gated delta net, taken apart into queries, keys, values and gates."""

from __future__ import annotations

import torch

Parts = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def fused_qkvzba_split_reshape_cat(
    mixed_qkvz: torch.Tensor,
    mixed_ba: torch.Tensor,
    num_heads_qk: int,
    num_heads_v: int,
    head_qk: int,
    head_v: int,
) -> Parts:
    """Parts of a projection that holds, for each key head, its query, key, values, output gates, betas and decays.

    Args:
        mixed_qkvz: (tokens, key heads * (2 * head_qk + 2 * values per key head * head_v)).
        mixed_ba: (tokens, key heads * 2 * values per key head).

    Returns:
        ``(mixed_qkv, z, b, a)``: (tokens, all queries | all keys | all values), (tokens, value heads, head_v), and two
        of (tokens, value heads).
    """
    per_key = num_heads_v // num_heads_qk
    values = per_key * head_v
    q, k, v, z = mixed_qkvz.unflatten(-1, (num_heads_qk, -1)).split([head_qk, head_qk, values, values], dim=-1)
    b, a = mixed_ba.unflatten(-1, (num_heads_qk, -1)).split([per_key, per_key], dim=-1)
    mixed_qkv = torch.cat([q.flatten(1), k.flatten(1), v.flatten(1)], dim=-1)
    return mixed_qkv, z.reshape(-1, num_heads_v, head_v), b.reshape(-1, num_heads_v), a.reshape(-1, num_heads_v)


def fused_qkvzba_split_reshape_cat_contiguous(
    mixed_qkvz: torch.Tensor,
    mixed_ba: torch.Tensor,
    num_heads_qk: int,
    num_heads_v: int,
    head_qk: int,
    head_v: int,
) -> Parts:
    """Like `fused_qkvzba_split_reshape_cat`, laid out all queries, keys, values, gates; all betas, decays."""
    qkv, z = mixed_qkvz.split([2 * num_heads_qk * head_qk + num_heads_v * head_v, num_heads_v * head_v], dim=-1)
    b, a = mixed_ba.split([num_heads_v, num_heads_v], dim=-1)
    return qkv.contiguous(), z.reshape(-1, num_heads_v, head_v), b.contiguous(), a.contiguous()
