"""A live cache on real pools, driven without a server: what the scheduler does, step by step."""

from __future__ import annotations

import dataclasses
import itertools
from array import array
from collections.abc import Callable, Mapping
from typing import Any

import torch
from sglang.kernels.ops.attention.fla.chunk_delta_h import CHUNK_SIZE
from sglang.srt.configs.mamba_utils import Mamba2CacheParams, Mamba2StateShape
from sglang.srt.managers.schedule_batch import FINISH_LENGTH, Req
from sglang.srt.mem_cache.allocation import ensure_mamba_capacity
from sglang.srt.mem_cache.allocator import TokenToKVPoolAllocator
from sglang.srt.mem_cache.base_prefix_cache import EvictParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.common import checkpoint_kv_cache, release_kv_cache
from sglang.srt.mem_cache.memory_pool import HybridLinearKVPool, HybridReqToTokenPool
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler

from sglang_marconi.cache.policy import LivePolicy
from sglang_marconi.cache.radix_cache import MarconiRadixCache, attach
from sglang_marconi.cache.server_state import pool_totals
from sglang_marconi.config import MarconiConfig
from sglang_marconi.cost import PrefixCost

#: A small hybrid model, for the tests' policies.
COST = PrefixCost(
    linear_flops_per_token=1e6,
    quadratic_flops_per_token_squared=1e3,
    kv_bytes_per_token=256,
    state_bytes=10_000,
)

_STATE_LAYERS, _KV_LAYERS = [0, 2], [1]
_MAX_CONTEXT = 4096


class LiveCache:
    """A ``no_buffer`` cache with the marconi policy, or SGLang's own with ``policy=None``.

    Args:
        kv_tokens: slots of the KV pool.
        state_slots: slots of the state pool.
        policy: configuration and cost model of the marconi cache, or None.
        tree_core: name of SGLang's tree core, for its own cache.
        chunk_tokens: most tokens that a prefill computes at once.
        wrap_order: what stands in for the order of victims, to look at what it is told.
        server_flags: fields of SGLang's server arguments.
        kv_events: record which blocks are cached, for ``tree.take_events``.
    """

    def __init__(
        self,
        kv_tokens: int,
        state_slots: int,
        policy: tuple[MarconiConfig, PrefixCost] | None,
        tree_core: str | None = None,
        chunk_tokens: int = _MAX_CONTEXT,
        wrap_order: Callable[[Any], Any] = lambda order: order,
        server_flags: Mapping[str, Any] | None = None,
        kv_events: bool = False,
    ) -> None:
        self.chunk_tokens = chunk_tokens
        args = ServerArgs(model_path="dummy", page_size=1, **(server_flags or {}))
        args._mamba_cache_chunk_size = CHUNK_SIZE
        set_global_server_args_for_scheduler(args)
        shape = Mamba2StateShape.create(
            tp_world_size=1,
            intermediate_size=8,
            n_groups=1,
            num_heads=2,
            head_dim=4,
            state_size=4,
            conv_kernel=4,
        )
        self.pool = HybridReqToTokenPool(
            size=64,
            mamba_size=state_slots,
            mamba_spec_state_size=64,
            max_context_len=_MAX_CONTEXT,
            device="cpu",
            enable_memory_saver=False,
            cache_params=Mamba2CacheParams(shape=shape, layers=_STATE_LAYERS),
            mamba_layer_ids=_STATE_LAYERS,
            enable_mamba_extra_buffer=False,
            speculative_num_draft_tokens=None,
        )
        kv_pool = HybridLinearKVPool(
            size=kv_tokens,
            dtype=torch.float32,
            page_size=1,
            head_num=1,
            head_dim=4,
            full_attention_layer_ids=_KV_LAYERS,
            device="cpu",
            enable_memory_saver=False,
            mamba_pool=self.pool.mamba_pool,
        )
        self.allocator = TokenToKVPoolAllocator(
            size=kv_tokens, dtype=torch.float32, device="cpu", kvcache=kv_pool, need_sort=False
        )
        params = CacheInitParams(
            disable=False,
            req_to_token_pool=self.pool,
            token_to_kv_pool_allocator=self.allocator,
            page_size=1,
            tree_components=(ComponentType.FULL, ComponentType.MAMBA),
            tree_core_backend=tree_core,
            enable_kv_cache_events=kv_events,
        )
        self.tree: Any
        if policy is None:
            self.tree = UnifiedRadixCache(params)
        else:
            live_policy = LivePolicy.create(*policy, grid=1)
            live_policy = dataclasses.replace(live_policy, order=wrap_order(live_policy.order))
            attach(params, live_policy)
            self.tree = MarconiRadixCache(params)
            self.tree.policy = live_policy
        self._ids = itertools.count()

    # ---- one request ----

    def arrive(self, prompt: list[int]) -> Req:
        """A new request, matched against the tree but not running; it may hold a state slot."""
        req = Req(
            rid=str(next(self._ids)),
            origin_input_text="",
            origin_input_ids=array("q", prompt),
            sampling_params=SamplingParams(max_new_tokens=1),
        )
        req.init_next_round_input(self.tree)
        return req

    def start(self, req: Req) -> None:
        """Prefill the request in chunks, stopping at its branch point if it has one."""
        req.lock = self.tree.lock(req.last_node)
        end = len(req.full_untruncated_fill_ids)
        branch = req.mamba_branching_seqlen if isinstance(self.tree, MarconiRadixCache) else None
        while req.prefix_len < end:
            piece_end = min(end, req.prefix_len + self.chunk_tokens)
            if branch and req.prefix_len < branch < piece_end:
                piece_end = branch
            self._extend(req, piece_end)

    def finish(self, req: Req, reply: list[int]) -> None:
        """Decode the reply and release the request; the last reply token has no KV, as in SGLang."""
        for token in reply[:-1]:
            req.output_ids.append(token)
            self._append_kv(req, 1)
        req.output_ids.append(reply[-1])
        req.finished_reason = FINISH_LENGTH(length=len(reply))
        req.finished_len = len(reply)
        release_kv_cache(req, self.tree, checkpoint=True)

    def abort_waiting(self, req: Req) -> None:
        """Drop a request that was matched but never ran."""
        release_kv_cache(req, self.tree, checkpoint=False)

    def serve(self, prompt: list[int], reply: list[int]) -> int:
        """Run one request alone; returns the cached tokens of its prompt."""
        req = self.arrive(prompt)
        hit = req.prefix_len
        self.start(req)
        self.finish(req, reply)
        return hit

    def _extend(self, req: Req, end: int) -> None:
        is_first = not req.kv.holds_kv
        req.extend_end = end
        if is_first:
            prefix = self.tree.prefix_device_indices(req) if req.prefix_len else None
            ensure_mamba_capacity(self.pool, [req], self.tree)
            assert self.pool.alloc([req]) is not None
            if prefix is not None:
                self.pool.write((req.kv.req_pool_idx, slice(0, req.prefix_len)), prefix)
            req.kv.kv_allocated_len = req.kv.kv_committed_len = req.prefix_len
            req.kv.mamba_cow_src_index = None
        self._append_kv(req, end - req.prefix_len)
        checkpoint_kv_cache(req, self.tree)

    def _append_kv(self, req: Req, num_tokens: int) -> None:
        short = num_tokens - self.allocator.available_size()
        if short > 0:
            self.tree.evict_for_alloc(EvictParams(num_tokens=short))
        slots = self.allocator.alloc(num_tokens)
        assert slots is not None, "the KV pool is too small for the running requests"
        start = req.kv.kv_allocated_len
        self.pool.write((req.kv.req_pool_idx, slice(start, start + num_tokens)), slots)
        req.kv.kv_allocated_len = req.kv.kv_committed_len = start + num_tokens

    # ---- checks ----

    def check_whole(self) -> None:
        """Raises AssertionError unless the idle pools are whole and the tree is sane."""
        self.tree.sanity_check()
        for name, pool in pool_totals(self.tree).items():
            assert pool["locked"] == 0, f"{name}: {pool}"
            assert pool["free"] + pool["cached"] == pool["total"], f"{name}: {pool}"
