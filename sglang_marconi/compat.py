"""Every private name of SGLang that the cache touches, checked when the backend is chosen.

``from sglang_marconi.compat import MambaComponent`` resolves a name of ``NAMES`` on first use.
Nothing of SGLang is imported before that, so the rest of the package works without SGLang.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from functools import cache
from typing import Any

#: SGLang versions whose seams were tried. Others are judged by the seams alone.
TESTED_VERSIONS = ("0.5.23",)

_MEM = "sglang.srt.mem_cache"
_UNIFIED = f"{_MEM}.unified_cache"
_SCHEDULER = "sglang.srt.managers.scheduler_components"

#: Name here -> "module:attribute" in SGLang.
NAMES: dict[str, str] = {
    "register_radix_cache_backend": f"{_MEM}.registry:register_radix_cache_backend",
    "get_radix_cache_factory": f"{_MEM}.registry:get_radix_cache_factory",
    "create_unified_radix_cache": f"{_MEM}.registry:create_unified_radix_cache",
    "default_radix_cache_factory": f"{_MEM}.registry:default_radix_cache_factory",
    "UnifiedRadixCache": f"{_MEM}.unified_radix_cache:UnifiedRadixCache",
    "UnifiedTreeCore": f"{_UNIFIED}.unified_tree_core:UnifiedTreeCore",
    "register_tree_core_backend": f"{_UNIFIED}.tree_core_registry:register_tree_core_backend",
    "get_tree_core_factory": f"{_UNIFIED}.tree_core_registry:get_tree_core_factory",
    "ComponentType": f"{_UNIFIED}.components.base:ComponentType",
    "EvictLayer": f"{_UNIFIED}.components.base:EvictLayer",
    "LRURefreshPhase": f"{_UNIFIED}.components.base:LRURefreshPhase",
    "FullComponent": f"{_UNIFIED}.components.full:FullComponent",
    "MambaComponent": f"{_UNIFIED}.components.mamba:MambaComponent",
    "EvictParams": f"{_MEM}.base_prefix_cache:EvictParams",
    "zero_match_result": f"{_MEM}.base_prefix_cache:zero_match_result",
    "PrefillAdder": "sglang.srt.managers.schedule_policy:PrefillAdder",
    "PrefillAdmission": "sglang.srt.managers.schedule_policy:_PrefillAdmission",
    "AddReqResult": "sglang.srt.managers.schedule_policy:AddReqResult",
    "InternalStateController": f"{_SCHEDULER}.internal_state:SchedulerInternalStateController",
    "HybridReqToTokenPool": f"{_MEM}.memory_pool:HybridReqToTokenPool",
    "MambaPool": f"{_MEM}.memory_pool:MambaPool",
    "ReqKvInfo": "sglang.srt.managers.schedule_batch:ReqKvInfo",
    "HookRegistry": "sglang.srt.plugins.hook_registry:HookRegistry",
    "HookType": "sglang.srt.plugins.hook_registry:HookType",
    "HEALTH_CHECK_RID_PREFIX": "sglang.srt.constants:HEALTH_CHECK_RID_PREFIX",
    "mamba_checkpoint_grid": "sglang.srt.runtime_context:mamba_checkpoint_grid",
    "get_memory": "sglang.srt.runtime_context:get_memory",
    "get_exec": "sglang.srt.runtime_context:get_exec",
    "get_spec": "sglang.srt.runtime_context:get_spec",
    "get_disagg": "sglang.srt.runtime_context:get_disagg",
    "get_parallel": "sglang.srt.runtime_context:get_parallel",
    "get_serving": "sglang.srt.runtime_context:get_serving",
}

#: Members that the cache overrides, wraps, calls or reads -> parameters that it relies on.
MEMBERS: dict[str, tuple[str, ...]] = {
    "UnifiedRadixCache.reset": (),
    "UnifiedRadixCache.evict_for_alloc": ("params",),
    "UnifiedTreeCore.reset": (),
    "UnifiedTreeCore._add_new_node": ("parent", "key", "value"),
    "UnifiedTreeCore._remove_leaf_from_parent": ("node",),
    "UnifiedTreeCore._evict_component_and_detach_lru": ("node", "comp", "device_frees", "host_frees"),
    "UnifiedTreeCore._cascade_evict": ("node", "trigger", "tracker", "device_frees", "host_frees"),
    "FullComponent._evict_device_start": ("request_cnt",),
    "FullComponent._evict_device_next_node": ("tracker",),
    "FullComponent._evict_device_end": (),
    "MambaComponent._evict_device_start": ("request_cnt",),
    "MambaComponent._evict_device_next_node": ("tracker", "device_frees", "host_frees", "cache_actions"),
    "MambaComponent._evict_device_end": (),
    "MambaComponent._alloc_mamba_slot": ("req",),
    "MambaComponent.refresh_lru": ("phase", "node", "root_node"),
    "MambaComponent.commit_insert_component_data": ("node", "is_new_leaf", "params", "result"),
    "MambaComponent.redistribute_on_node_split": ("new_parent", "child"),
    "MambaComponent.evict_component": ("node", "device_frees", "host_frees", "cache_actions", "target"),
    "MambaComponent.acquire_component_lock": ("node", "result", "lock_host"),
    "MambaComponent.release_component_lock": ("node", "params", "lock_host"),
    "MambaComponent.finalize_match_result_in_cache": ("params", "result"),
    "MambaComponent.prepare_for_caching_req": ("req", "insert_params", "token_ids_len", "is_finished"),
    "MambaComponent.cleanup_after_caching_req": ("req", "is_finished", "insert_result", "insert_params"),
    "PrefillAdder._select_prefill_admission": ("req", "has_chunked_req"),
    "PrefillAdder.add_chunked_req": ("req",),
    "InternalStateController.get_internal_state": ("recv_req",),
    "UnifiedTreeCore._update_evictable_leaf_sets": ("node",),
    "UnifiedTreeCore.get_component_device_value": ("node_id", "component_type"),
    "HybridReqToTokenPool.donate_mamba_ping_pong_slot": ("req", "new_slot"),
    "HybridReqToTokenPool.get_mamba_ping_pong_keep_idx": ("req",),
    "HybridReqToTokenPool.set_mamba_ping_pong_slot": ("req", "idx", "value"),
    "HybridReqToTokenPool.translate_mamba_indices": ("mamba_indices",),
    "MambaPool.copy_from": (),
    "ReqKvInfo.holds_mamba": (),
    "ReqKvInfo.kv_committed_len": (),
    "ReqKvInfo.mamba_last_track_seqlen": (),
    "ReqKvInfo.mamba_ping_pong_track_buffer": (),
    "ReqKvInfo.mamba_pool_idx": (),
}


class IncompatibleSGLang(RuntimeError):
    """The installed SGLang lacks a name that the marconi backend needs."""


def sglang_version() -> str:
    """The installed SGLang's version, or "none"."""
    try:
        return importlib.metadata.version("sglang")
    except importlib.metadata.PackageNotFoundError:
        return "none"


@cache
def resolve(name: str) -> Any:
    """The object of SGLang behind a key of ``NAMES``.

    Raises:
        IncompatibleSGLang: the installed version has no such module or attribute.
    """
    module_name, _, attribute = NAMES[name].partition(":")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise IncompatibleSGLang(_report([f"{module_name}.{attribute} ({error})"])) from error


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return resolve(name)


def check_seams() -> None:
    """Raises IncompatibleSGLang that lists every missing seam; returns if there is none."""
    missing = [problem for name in NAMES if (problem := _missing_name(name))]
    if not missing:
        missing = [problem for member in MEMBERS if (problem := _missing_member(member))]
    if missing:
        raise IncompatibleSGLang(_report(missing))


def _missing_name(name: str) -> str | None:
    try:
        resolve(name)
    except IncompatibleSGLang:
        return NAMES[name].replace(":", ".")
    return None


def _missing_member(member: str) -> str | None:
    owner_name, _, attribute = member.partition(".")
    found = getattr(resolve(owner_name), attribute, None)
    path = f"{NAMES[owner_name].replace(':', '.')}.{attribute}"
    if found is None:
        return path
    lacking = [p for p in MEMBERS[member] if p not in inspect.signature(found).parameters]
    return f"{path}(... {', '.join(lacking)} ...)" if lacking else None


def _report(missing: list[str]) -> str:
    return (
        f"sglang-marconi cannot use SGLang {sglang_version()}: missing {', '.join(missing)}. "
        f"Tried versions: {', '.join(TESTED_VERSIONS)}. Install one of them "
        f"(pip install 'sglang=={TESTED_VERSIONS[-1]}') or start without --radix-cache-backend marconi."
    )
