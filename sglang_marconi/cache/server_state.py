"""Shows the cache's configuration, counters and pool totals in SGLang's ``/server_info``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from sglang_marconi.cache.hooks import wrap_methods
from sglang_marconi.cache.policy import LivePolicy
from sglang_marconi.compat import InternalStateController


def install() -> None:
    """Add a ``marconi`` entry to the scheduler's internal state."""
    wrap_methods(InternalStateController, {"get_internal_state": _with_marconi})


def _with_marconi(original: Callable[..., Any], controller: Any, recv_req: Any) -> Any:
    output = original(controller, recv_req)
    cache = controller.scheduler.tree_cache
    if isinstance(policy := getattr(cache, "policy", None), LivePolicy):
        try:
            output.internal_state["marconi"] = describe(cache)
        except Exception:
            policy.guard.failed("describing the cache")
    return output


def describe(cache: Any) -> dict[str, Any]:
    """Configuration, cost model, counters, pool totals, tuner and trace file of a marconi cache."""
    policy: LivePolicy = cache.policy
    return {
        "config": dataclasses.asdict(policy.config),
        "cost": dataclasses.asdict(policy.cost),
        "stats": policy.stats.as_dict(),
        "pools": pool_totals(cache),
        "tuner": cache.tuner.describe() if cache.tuner is not None else None,
        "trace_file": cache.recorder.path if cache.recorder is not None else None,
    }


def pool_totals(cache: Any) -> dict[str, dict[str, int]]:
    """Slots of the KV pool and of the state pool.

    Returns:
        For ``kv`` (tokens) and ``states``: ``total``, ``free``, ``cached`` (in the tree, not in
        use) and ``locked`` (in the tree, in use). On an idle server free + cached = total.
    """
    kv, states = cache.token_to_kv_pool_allocator, cache.req_to_token_pool.mamba_allocator
    return {
        "kv": {
            "total": kv.size,
            "free": kv.available_size(),
            "cached": cache.full_evictable_size(),
            "locked": cache.full_protected_size(),
        },
        "states": {
            "total": states.size,
            "free": states.available_size(),
            "cached": cache.mamba_evictable_size(),
            "locked": cache.mamba_protected_size(),
        },
    }
