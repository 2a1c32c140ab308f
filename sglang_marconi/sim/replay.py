"""Replay a trace through policies, many at once in native threads."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

from sglang_marconi import _core
from sglang_marconi.cost import LayerwiseCost
from sglang_marconi.sim.models import Model, total_cost
from sglang_marconi.sim.pools import Pools
from sglang_marconi.sim.results import RunResult

Preset = Literal["default", "paper-artifact"]

PRESETS: tuple[Preset, ...] = ("default", "paper-artifact")
POLICIES = ("none", "vllm", "sglang", "sglang-native", "marconi", "oracle-alpha", "belady")
ORACLE_GRIDS: dict[Preset, tuple[float, ...]] = {
    "default": (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0),
    "paper-artifact": tuple(tenth / 10 for tenth in range(21)),
}
_POLL_S = 0.02


@dataclasses.dataclass(frozen=True)
class ReplayRun:
    """One policy with one cache.

    Args:
        policy: a name of ``POLICIES``.
        capacity_bytes: one budget for KV and states, or the bytes of both pools.
        model: FLOPs and bytes; the preset ``paper-artifact`` needs them by layer.
        alpha: weight of FLOP efficiency, or ``"auto"``; only policy marconi has one.
        preset: ``default``, or ``paper-artifact`` for the simulator of Marconi's authors.
        recency: ``linear`` or ``inverse_age``; preset default.
        bytes: efficiency per byte that eviction frees (``own``) or of the whole ``path``; preset default.
        min_branch_gain_tokens: what a branch point must save to get a state; preset default.
        pools: SGLang's two pools instead of one budget of bytes; preset default.
        admit_prompt_end: keep the state at the prompt's end too; with ``pools``.
        tuning: alpha ``"auto"`` with ``pools``: when windows open and close.
    """

    policy: str
    capacity_bytes: int
    model: Model
    alpha: float | Literal["auto"] = 0.0
    preset: Preset = "default"
    recency: Literal["linear", "inverse_age"] = "linear"
    bytes: Literal["own", "path"] = "own"
    min_branch_gain_tokens: int = 32
    pools: Pools | None = None
    admit_prompt_end: bool = False
    tuning: _core.TuningOptions = dataclasses.field(default_factory=_core.TuningOptions)

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"policy must be one of {', '.join(POLICIES)}, got {self.policy!r}")
        if self.preset == "paper-artifact" and not isinstance(self.model, LayerwiseCost):
            raise ValueError("preset paper-artifact needs the cost by layer; take the model paper-7b")
        if isinstance(self.alpha, str) and self.alpha != "auto":
            raise ValueError(f'alpha must be "auto" or a number >= 0, got {self.alpha!r}')
        if self.admit_prompt_end and self.pools is None:
            raise ValueError("admit_prompt_end needs the budget sglang (pools)")

    def has_alpha(self) -> bool:
        """Whether alpha means anything to the policy."""
        return self.policy in ("marconi", "oracle-alpha")

    def check(self) -> None:
        """Raise ValueError for a run that cannot be."""
        for alternative in _alternatives(self):
            alternative.options()

    def options(self) -> _core.ReplayOptions:
        """The native form."""
        return _core.ReplayOptions(
            self.policy,
            self.capacity_bytes,
            _native_cost(self.model),
            alpha=0.0 if self.alpha == "auto" else self.alpha,
            tunes_alpha=self.alpha == "auto",
            preset=self.preset,
            recency=self.recency,
            bytes=self.bytes,
            min_branch_gain_tokens=self.min_branch_gain_tokens,
            admits_prompt_end=self.admit_prompt_end,
            tuning=self.tuning,
            **_native_pools(self.pools),
        )


def replay(trace: _core.Trace, run: ReplayRun, threads: int | None = None) -> RunResult:
    """Replay one run; see ``run_search``."""
    return run_search(trace, [run], threads)[0]


def run_search(
    trace: _core.Trace,
    runs: Sequence[ReplayRun],
    threads: int | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> list[RunResult]:
    """Replay all runs, each on its own cache; the results do not depend on ``threads``.

    Args:
        trace: what ``read_trace`` or a builder gives; shared by all runs.
        runs: policy ``oracle-alpha`` stands for the best of its grid.
        threads: native threads, all cores by default.
        on_progress: called now and then with the fraction that is done.

    Raises:
        ValueError: a run that cannot be.
    """
    plan = [_alternatives(run) for run in runs]
    options = [alternative.options() for alternatives in plan for alternative in alternatives]
    search = _core.Search(trace, options, threads or os.cpu_count() or 1)
    try:
        while on_progress is not None and not search.is_done:
            on_progress(search.served_requests / max(1, search.total_requests))
            time.sleep(_POLL_S)
        results = iter(search.results())
    finally:
        search.cancel()
    return [
        _best(trace, run, [next(results) for _ in alternatives]) for run, alternatives in zip(runs, plan, strict=True)
    ]


def _best(trace: _core.Trace, run: ReplayRun, results: Sequence[_core.ReplayResult]) -> RunResult:
    """The result with most hit tokens, of equals the first: the smaller alpha."""
    best = max(results, key=lambda result: result.total_hit_tokens)
    return RunResult(run.policy, best.alpha if run.has_alpha() else None, run.capacity_bytes, trace, best)


def _alternatives(run: ReplayRun) -> list[ReplayRun]:
    if run.policy != "oracle-alpha":
        return [run]
    return [dataclasses.replace(run, policy="marconi", alpha=alpha) for alpha in ORACLE_GRIDS[run.preset]]


def _native_pools(pools: Pools | None) -> dict[str, Any]:
    if pools is None:
        return {}
    return {
        "budget": "sglang",
        "kv_tokens": pools.kv_tokens,
        "states": pools.states,
        "page_tokens": pools.page_size,
        "chunk_tokens": pools.chunked_prefill_size,
        "grid_tokens": pools.grid,
        "track_interval_tokens": 0 if pools.strategy == "no_buffer" else pools.track_interval,
        "slots_per_request": pools.slots_per_request,
        "prefill_s_per_token": pools.prefill_s_per_token,
        "decode_s_per_token": pools.decode_s_per_token,
        "max_running_requests": pools.max_running_requests,
    }


def _native_cost(model: Model) -> _core.LayerwiseCost:
    by_layer = dataclasses.asdict(model) if isinstance(model, LayerwiseCost) else {}
    by_layer.pop("total", None)
    return _core.LayerwiseCost(**dataclasses.asdict(total_cost(model)), **by_layer)
