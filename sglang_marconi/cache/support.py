"""What the marconi backend refuses at start-up, with the reason and what to use instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sglang_marconi.compat import get_disagg, get_exec, get_memory, get_parallel, get_spec


class Refusal(NamedTuple):
    """One option that bypasses the cache or that the cache does not serve yet."""

    flag: str
    is_set: Callable[[Any], Any]
    reason: str
    remedy: str


_UNTESTED = "evictions and checkpoints of the marconi backend are not carried to it"

REFUSALS = (
    Refusal(
        "--radix-eviction-policy",
        lambda ctx: ctx.params.eviction_policy.lower() != "lru",
        "the marconi backend has its own eviction order",
        "omit it and set alpha in --radix-eviction-policy-config (alpha 0 is LRU)",
    ),
    Refusal(
        "--enable-hierarchical-cache",
        lambda ctx: ctx.enable_hierarchical_cache,
        _UNTESTED,
        "omit it, or omit --radix-cache-backend marconi",
    ),
    Refusal(
        "--enable-unified-cache-external-linker",
        lambda ctx: get_memory().enable_unified_cache_external_linker,
        _UNTESTED,
        "omit it, or omit --radix-cache-backend marconi",
    ),
    Refusal(
        "--enable-lmcache",
        lambda ctx: get_memory().enable_lmcache,
        "LMCache replaces the radix cache",
        "omit one of the two",
    ),
    Refusal(
        "--enable-flexkv",
        lambda ctx: get_memory().enable_flexkv,
        "FlexKV replaces the radix cache",
        "omit one of the two",
    ),
    Refusal(
        "--enable-session-radix-cache",
        lambda ctx: ctx.params.enable_session_radix_cache,
        "session references are not part of the utility order",
        "omit it, or omit --radix-cache-backend marconi",
    ),
    Refusal(
        "--enable-unified-memory",
        lambda ctx: get_memory().enable_unified_memory,
        "the shared byte budget has not been tried with it",
        "omit it and split the memory with --mamba-full-memory-ratio",
    ),
    Refusal(
        "--enable-linear-replayssm",
        lambda ctx: get_exec().mamba.enable_linear_replayssm,
        "states at a branch point lag behind the ring buffer",
        "omit it, or omit --radix-cache-backend marconi",
    ),
    Refusal(
        "--mamba-radix-cache-strategy extra_buffer_lazy",
        lambda ctx: ctx.params.enable_mamba_extra_buffer_lazy,
        "checkpoints in tracking slots that come and go have not been tried",
        "use extra_buffer or no_buffer",
    ),
    Refusal(
        "--speculative-algorithm",
        lambda ctx: get_spec().speculative_algorithm is not None,
        "checkpoints after rejected draft tokens have not been tried",
        "omit it, or omit --radix-cache-backend marconi",
    ),
    Refusal(
        "--disaggregation-mode",
        lambda ctx: get_disagg().disaggregation_mode != "null",
        "prefill and decode servers hand states over outside the tree",
        "use --disaggregation-mode null",
    ),
    Refusal(
        "--dcp-size",
        lambda ctx: get_parallel().dcp_enabled,
        "checkpoint positions follow another grid there",
        "use --dcp-size 1",
    ),
    Refusal(
        "sliding-window attention",
        lambda ctx: ctx.is_hybrid_swa,
        "window KV is not part of the utility order",
        "omit --radix-cache-backend marconi",
    ),
)


def refuse_unsupported(ctx: Any) -> None:
    """Raises ValueError for the first option that this hybrid server cannot combine with marconi."""
    for refusal in REFUSALS:
        if refusal.is_set(ctx):
            raise ValueError(
                f"--radix-cache-backend marconi does not work with {refusal.flag}: {refusal.reason}. "
                f"Remedy: {refusal.remedy}."
            )
