"""Stops a prefill exactly at a branch point, so that SGLang checkpoints the state there.

SGLang publishes a request after every prefill chunk. Ending a chunk at the branch point and
running the rest as the next chunk costs the request one scheduling step and gives the exact
state. SGLang follows one chunked request at a time: when another is in flight, the split is
skipped and counted, and no request ever waits for it.

The hooks are installed when the backend is built and leave every other cache alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from sglang_marconi.cache.hooks import wrap_methods
from sglang_marconi.cache.policy import LivePolicy
from sglang_marconi.cache.stats import CacheStats
from sglang_marconi.compat import AddReqResult, PrefillAdder, PrefillAdmission


def install() -> None:
    """Wrap the scheduler's choice of prefill chunks."""
    wrap_methods(
        PrefillAdder,
        {"_select_prefill_admission": _split_new_request, "add_chunked_req": _split_continuation},
    )


def _policy(adder: Any) -> LivePolicy | None:
    """The policy of the marconi cache behind the adder, or None for any other cache."""
    policy = getattr(adder.tree_cache, "policy", None)
    return policy if isinstance(policy, LivePolicy) else None


def _tokens_to_branch(req: Any, prefix_tokens: int) -> int:
    """Tokens from the prefix to the request's branch point; 0 when there is none ahead."""
    branch = req.mamba_branching_seqlen
    return branch - prefix_tokens if branch is not None and branch > prefix_tokens else 0


def _split_new_request(select: Callable[..., Any], adder: Any, req: Any, **kwargs: Any) -> Any:
    admission = select(adder, req, **kwargs)
    policy = _policy(adder)
    if policy is None or not isinstance(admission, PrefillAdmission):
        return admission
    chunk_in_flight = kwargs.get("has_chunked_req", False) or adder.new_chunked_req is not None
    if admission.is_chunked and chunk_in_flight:
        # A split left budget in the pass, which SGLang would give to a second chunked request.
        return AddReqResult.OTHER
    try:
        tokens = _tokens_to_branch(req, admission.prefix_len)
        if not 0 < tokens < admission.extend_len or not _can_split(adder, policy.stats, chunk_in_flight, kwargs):
            return admission
        return dataclasses.replace(admission, extend_len=tokens, max_new_tokens=0, is_chunked=True)
    except Exception:
        policy.guard.failed("splitting a prefill")
        return admission


def _can_split(adder: Any, stats: CacheStats, chunk_in_flight: bool, kwargs: dict[str, Any]) -> bool:
    if adder.rem_chunk_tokens is None or kwargs.get("truncation_align_size") is not None:
        stats.branch_skipped_no_chunking += 1
        return False
    if chunk_in_flight:
        stats.branch_skipped_chunk_in_flight += 1
        return False
    return True


def _split_continuation(add: Callable[..., Any], adder: Any, req: Any) -> Any:
    policy = _policy(adder)
    if policy is not None:
        try:
            tokens = _tokens_to_branch(req, req.prefix_len)
            if tokens:
                limit = adder.chunked_req_limit
                adder.chunked_req_limit = tokens if limit is None else min(limit, tokens)
        except Exception:
            policy.guard.failed("splitting a prefill")
    return add(adder, req)
