"""What the marconi backend refuses at start-up, and what it warns of, with reasons and remedies.

``docs/support.md`` shows these tables; a test compares the two.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from sglang_marconi.compat import get_disagg, get_exec, get_memory, get_parallel, get_serving, get_spec
from sglang_marconi.config import SOURCE, MarconiConfig

logger = logging.getLogger(__name__)


class Refusal(NamedTuple):
    """One option that the cache does not serve."""

    flag: str
    is_set: Callable[[Any, MarconiConfig], Any]
    reason: str
    remedy: str


class Notice(NamedTuple):
    """One option under which the cache does nothing, less than it could, or what was never tried."""

    flag: str
    is_set: Callable[[Any], Any]
    effect: str
    remedy: str


REFUSALS = (
    Refusal(
        "--radix-eviction-policy",
        lambda ctx, _: ctx.params.eviction_policy.lower() != "lru",
        "the marconi backend has its own eviction order",
        "omit it and set alpha in --radix-eviction-policy-config (alpha 0 is LRU)",
    ),
    Refusal(
        "--enable-hierarchical-cache",
        lambda ctx, _: ctx.enable_hierarchical_cache,
        "evictions and checkpoints are not carried to a host tier",
        "omit it, or omit --radix-cache-backend marconi",
    ),
    Refusal(
        "--enable-lmcache",
        lambda ctx, _: get_memory().enable_lmcache,
        "LMCache replaces the radix cache",
        "omit one of the two",
    ),
    Refusal(
        "--enable-flexkv",
        lambda ctx, _: get_memory().enable_flexkv,
        "FlexKV replaces the radix cache",
        "omit one of the two",
    ),
    Refusal(
        "--enable-session-radix-cache",
        lambda ctx, _: ctx.params.enable_session_radix_cache,
        "session references are not part of the utility order",
        "omit it, or omit --radix-cache-backend marconi",
    ),
    Refusal(
        "--enable-unified-memory",
        lambda ctx, _: get_memory().enable_unified_memory,
        "the shared byte budget has not been tried with it",
        "omit it and split the memory with --mamba-full-memory-ratio",
    ),
    Refusal(
        "--enable-linear-replayssm",
        lambda ctx, _: get_exec().mamba.enable_linear_replayssm,
        "states at a branch point lag behind the ring buffer",
        "omit it, or omit --radix-cache-backend marconi",
    ),
    Refusal(
        "--mamba-radix-cache-strategy extra_buffer_lazy",
        lambda ctx, _: ctx.params.enable_mamba_extra_buffer_lazy,
        "checkpoints in tracking slots that come and go have not been tried",
        "use extra_buffer or no_buffer",
    ),
    Refusal(
        "--speculative-algorithm",
        lambda ctx, _: get_spec().speculative_algorithm is not None,
        "checkpoints after rejected draft tokens have not been tried",
        "omit it, or omit --radix-cache-backend marconi",
    ),
    Refusal(
        "--disaggregation-mode",
        lambda ctx, _: get_disagg().disaggregation_mode != "null",
        "prefill and decode servers hand states over outside the tree",
        "use --disaggregation-mode null",
    ),
    Refusal(
        "--pp-size",
        lambda ctx, config: ctx.params.pp_size > 1 and config.is_tuned,
        "the stages would take up a new alpha at different requests",
        f"set alpha to a number in {SOURCE}",
    ),
    Refusal(
        "--enable-pdmux",
        lambda ctx, _: get_disagg().enable_pdmux,
        "a split prefill runs on two streams there, which has not been tried",
        "omit it, or omit --radix-cache-backend marconi",
    ),
    Refusal(
        "--attn-cp-size",
        lambda ctx, _: get_parallel().attn_cp_size > 1,
        "stopping a prefill at a branch point has not been tried with context parallelism",
        "use --attn-cp-size 1",
    ),
    Refusal(
        "--strip-thinking-cache",
        lambda ctx, config: get_serving().strip_thinking_cache and config.admit_prompt_end == "never",
        "only the prompt is cached there, and no state at its end is kept: the next turn could not resume",
        f'set "admit_prompt_end": "always" in {SOURCE}',
    ),
    Refusal(
        "--dcp-size",
        lambda ctx, _: get_parallel().dcp_enabled,
        "checkpoint positions follow another grid there",
        "use --dcp-size 1",
    ),
    Refusal(
        "sliding-window attention",
        lambda ctx, _: ctx.is_hybrid_swa,
        "window KV is not part of the utility order",
        "omit --radix-cache-backend marconi",
    ),
)


NOTICES = (
    Notice(
        "--disable-radix-cache",
        lambda ctx: ctx.disable_radix_cache,
        "nothing is cached (SGLang sets it by itself for some models)",
        "omit it",
    ),
    Notice(
        "a model without recurrent states",
        lambda ctx: not ctx.is_hybrid_ssm,
        "SGLang's own radix cache serves",
        "omit --radix-cache-backend marconi",
    ),
    Notice(
        "--chunked-prefill-size -1",
        lambda ctx: not (ctx.params.chunked_prefill_size or 0) > 0 and not ctx.params.enable_mamba_extra_buffer,
        "a prefill cannot stop at a branch point, so no state is kept there",
        "set a chunk size, or use --mamba-radix-cache-strategy extra_buffer",
    ),
    Notice(
        "--enable-dp-attention",
        lambda ctx: get_parallel().attn_dp_size > 1,
        "each rank keeps a cache of its own; not tried, since it needs two GPUs",
        "omit it, or compare outputs with a server without the cache first",
    ),
)


def refuse_unsupported(ctx: Any, config: MarconiConfig) -> None:
    """Raises ValueError for the first option that this hybrid server cannot combine with marconi."""
    for refusal in REFUSALS:
        if refusal.is_set(ctx, config):
            raise ValueError(
                f"--radix-cache-backend marconi does not work with {refusal.flag}: {refusal.reason}. "
                f"Remedy: {refusal.remedy}."
            )


def warn_of_notices(ctx: Any) -> None:
    """Log a warning for each option of ``NOTICES`` that is set."""
    for notice in NOTICES:
        if notice.is_set(ctx):
            logger.warning("marconi: %s: %s; remedy: %s", notice.flag, notice.effect, notice.remedy)
