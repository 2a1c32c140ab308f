"""What a replay answers."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy.typing as npt

from sglang_marconi import _core


@dataclasses.dataclass(frozen=True)
class RunResult:
    """One policy's replay of a trace.

    Args:
        policy: its name.
        alpha: at the end of the replay; None for a policy without one.
        capacity_bytes: one budget for KV and states, or the bytes of both pools.
        trace: what was replayed.
        native: per-request columns.
    """

    policy: str
    alpha: float | None
    capacity_bytes: int
    trace: _core.Trace
    native: _core.ReplayResult

    @property
    def token_hit_rate(self) -> float:
        """Share of prompt tokens that a cached state saved."""
        return self.native.total_hit_tokens / max(1, self.trace.prompt_tokens)

    def summary(self) -> dict[str, Any]:
        """Totals over the requests, ready for JSON."""
        native = self.native
        held_bytes = native.kv_bytes + native.state_bytes
        return {
            "policy": self.policy,
            "alpha": self.alpha,
            "capacity_bytes": self.capacity_bytes,
            "requests": len(native),
            "prompt_tokens": self.trace.prompt_tokens,
            "token_hit_rate": self.token_hit_rate,
            "flops_saved": native.total_flops_saved,
            "missed_tokens": {
                "never_seen": int(native.never_seen_tokens.sum()),
                "no_state_admitted": int(native.not_admitted_tokens.sum()),
                "evicted": int(native.evicted_tokens.sum()),
                "in_flight": int(native.in_flight_tokens.sum()),
            },
            "leaf_victims": int(native.leaf_victims.sum()),
            "inner_victims": int(native.inner_victims.sum()),
            "uncached_requests": int((~native.is_cached).sum()),
            "max_held_bytes": int(held_bytes.max(initial=0)),
            "requests_over_capacity": int((held_bytes > self.capacity_bytes).sum()),
            "final_kv_bytes": int(native.kv_bytes[-1]) if len(native) else 0,
            "final_state_bytes": int(native.state_bytes[-1]) if len(native) else 0,
            "tuned_after_requests": native.tuned_after if native.tuned_after >= 0 else None,
        }

    def per_request(self) -> dict[str, list[Any]]:
        """One list per quantity, in the order of the requests."""
        native = self.native
        columns: dict[str, npt.NDArray[Any]] = {
            "hit_tokens": native.hit_tokens,
            "never_seen_tokens": native.never_seen_tokens,
            "no_state_admitted_tokens": native.not_admitted_tokens,
            "evicted_tokens": native.evicted_tokens,
            "in_flight_tokens": native.in_flight_tokens,
            "request_flops_saved": native.flops_saved,
            "kv_bytes": native.kv_bytes,
            "state_bytes": native.state_bytes,
            "request_leaf_victims": native.leaf_victims,
            "request_inner_victims": native.inner_victims,
        }
        return {name: column.tolist() for name, column in columns.items()}
