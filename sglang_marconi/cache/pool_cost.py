"""FLOPs and bytes of a prefix on the running server: the loaded model and its true pools."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from sglang_marconi.config import MarconiConfig
from sglang_marconi.cost import PAPER_7B, PrefixCost, cost_from_config

logger = logging.getLogger(__name__)


def server_cost(ctx: Any, config: MarconiConfig) -> PrefixCost:
    """The cost model that ``config.cost`` names.

    Args:
        ctx: SGLang's ``TreeCacheBuildContext``.

    Returns:
        ``model``: FLOPs of the loaded model, bytes of the pools of this rank; ``paper``: the 7B
        hybrid of Marconi, table 1.
    """
    if config.cost == "paper":
        return PAPER_7B
    return dataclasses.replace(
        _model_flops(ctx.model_config.hf_config),
        kv_bytes_per_token=kv_bytes_per_token(ctx.params.token_to_kv_pool_allocator),
        state_bytes=state_bytes(ctx.params.req_to_token_pool),
    )


def _model_flops(hf_config: Any) -> PrefixCost:
    try:
        return cost_from_config(hf_config.to_dict())
    except ValueError as unknown:
        logger.warning("marconi: %s; the FLOPs of the paper's 7B hybrid stand in", unknown)
        return PAPER_7B


def kv_bytes_per_token(allocator: Any) -> int:
    """Bytes that one token takes in the KV pools of this rank, all attention layers together."""
    pool = allocator.get_kvcache()
    sizes = pool.get_kv_size_bytes()
    total = sum(sizes) if isinstance(sizes, tuple) else sizes
    return max(1, round(total / (allocator.size + allocator.page_size)))


def state_bytes(req_to_token_pool: Any) -> int:
    """Bytes of one state slot of this rank: conv and recurrent state, all layers together."""
    cache = req_to_token_pool.mamba_pool.mamba_cache
    tensors = [*cache.conv, cache.temporal]
    return sum(tensor.element_size() * tensor.numel() // tensor.shape[1] for tensor in tensors)
