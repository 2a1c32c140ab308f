"""The live cache: SGLang's unified radix cache with Marconi's admission and eviction."""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from typing import Any

from sglang_marconi.cache import prefill_split, server_state
from sglang_marconi.cache.components import MarconiKVComponent, MarconiStateComponent
from sglang_marconi.cache.observer import RequestObserver
from sglang_marconi.cache.policy import LivePolicy
from sglang_marconi.cache.pool_cost import server_cost
from sglang_marconi.cache.support import refuse_unsupported, warn_of_notices
from sglang_marconi.cache.tree_core import TREE_CORE_NAME, MarconiTreeCore
from sglang_marconi.compat import (
    ComponentType,
    UnifiedRadixCache,
    create_unified_radix_cache,
    default_radix_cache_factory,
    get_tree_core_factory,
    mamba_checkpoint_grid,
    register_tree_core_backend,
)
from sglang_marconi.config import SOURCE, MarconiConfig
from sglang_marconi.recording.recorder import TraceRecorder, trace_name
from sglang_marconi.recording.trace_files import TraceFiles
from sglang_marconi.tuning.agreement import RankAgreement
from sglang_marconi.tuning.recorder import LiveSizes
from sglang_marconi.tuning.tuner import LiveTuner

logger = logging.getLogger(__name__)


class MarconiRadixCache(UnifiedRadixCache):
    """A radix cache that keeps few states and evicts the least useful ones."""

    policy: LivePolicy
    tuner: LiveTuner | None = None
    recorder: TraceRecorder | None = None

    @property
    def observers(self) -> tuple[RequestObserver, ...]:
        """Those that are told of each request."""
        return tuple(observer for observer in (self.tuner, self.recorder) if observer is not None)

    def reset(self) -> None:
        """Forget everything that is cached, and what was recorded of it."""
        super().reset()
        for observer in self.observers:
            observer.reset()


def build(ctx: Any) -> Any:
    """The cache that ``--radix-cache-backend marconi`` selects.

    A model without states, or a disabled radix cache, gets SGLang's own cache.

    Args:
        ctx: SGLang's ``TreeCacheBuildContext``.

    Raises:
        ValueError: the configuration or a combination of flags is not supported.
    """
    config = MarconiConfig.from_mapping(ctx.params.eviction_policy_config)
    # The keys are ours: SGLang's own eviction strategy would refuse them.
    ctx.params.eviction_policy_config = None
    warn_of_notices(ctx)
    if not ctx.is_hybrid_ssm or ctx.disable_radix_cache:
        return default_radix_cache_factory(ctx)
    refuse_unsupported(ctx, config)
    policy = LivePolicy.create(config, server_cost(ctx, config), checkpoint_grid(ctx.params))
    attach(ctx.params, policy)
    cache = create_unified_radix_cache(ctx, cache_class=MarconiRadixCache)
    cache.policy = policy
    if config.is_tuned:
        cache.tuner = make_tuner(cache, policy, ctx.params.chunked_prefill_size, checkpoint_grid(ctx.params))
    if config.record_folder is not None and RankAgreement(cache.tp_group).decides and ctx.params.pp_rank == 0:
        cache.recorder = make_recorder(config, Path(config.record_folder))
    prefill_split.install()
    server_state.install()
    logger.info("marconi: %s; %s", policy.config, policy.cost)
    return cache


def make_tuner(cache: Any, policy: LivePolicy, chunked_prefill_size: int | None, grid: int) -> LiveTuner:
    """A tuner for the cache's pools and ranks."""
    if chunked_prefill_size is None or chunked_prefill_size <= 0:
        chunked_prefill_size = LiveSizes.UNCHUNKED
    sizes = LiveSizes(
        kv_tokens=cache.token_to_kv_pool_allocator.size,
        states=cache.req_to_token_pool.mamba_allocator.size,
        chunked_prefill_size=chunked_prefill_size,
        grid=grid,
        # With the extra buffer a request tracks in two slots besides its own.
        slots_per_request=3 if cache.enable_mamba_extra_buffer else 1,
    )
    return LiveTuner(policy, sizes, RankAgreement(cache.tp_group))


def make_recorder(config: MarconiConfig, folder: Path) -> TraceRecorder:
    """A recorder of one replica's requests.

    Raises:
        ValueError: the folder cannot be written.
    """
    try:
        files = TraceFiles(folder, trace_name(), config.record_file_mb, config.record_files)
    except OSError as error:
        raise ValueError(f"record_folder {str(folder)!r} cannot be written: {error.strerror} ({SOURCE})") from error
    return TraceRecorder(files, with_tokens=config.record_tokens)


def checkpoint_grid(params: Any) -> int:
    """Tokens between positions where a prefill can leave a state."""
    return mamba_checkpoint_grid(params.page_size) if params.enable_mamba_extra_buffer else 1


def attach(params: Any, policy: LivePolicy) -> None:
    """Make SGLang build the tree with our components and our tree core.

    Args:
        params: SGLang's ``CacheInitParams``, changed in place.
    """
    params.component_registry_override = {
        **(params.component_registry_override or {}),
        ComponentType.FULL: functools.partial(MarconiKVComponent, policy=policy),
        ComponentType.MAMBA: functools.partial(MarconiStateComponent, policy=policy),
    }
    if get_tree_core_factory(TREE_CORE_NAME) is None:
        register_tree_core_backend(TREE_CORE_NAME, MarconiTreeCore)
    params.tree_core_backend = TREE_CORE_NAME
