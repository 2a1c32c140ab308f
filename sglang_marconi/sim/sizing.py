"""How to split a cache's memory between states and KV: every split replayed, the best one found."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal

from sglang_marconi import _core
from sglang_marconi.sim.models import total_cost
from sglang_marconi.sim.pools import Pools, split_memory
from sglang_marconi.sim.replay import ReplayRun, run_search
from sglang_marconi.sim.results import RunResult

#: SGLang's ``--mamba-full-memory-ratio`` when nothing is said.
DEFAULT_RATIO = 0.9
_STATE_SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_FINER_STEPS = 4


@dataclasses.dataclass(frozen=True)
class Split:
    """One way to split the memory.

    Args:
        ratio: ``--mamba-full-memory-ratio``, memory of states over memory of KV.
        result: the replay with that split.
        kv_fill: share of the KV pool in use, mean of the trace's second half.
        state_fill: share of the state pool in use, likewise.
    """

    ratio: float
    pools: Pools
    result: RunResult
    kv_fill: float
    state_fill: float


@dataclasses.dataclass(frozen=True)
class Sizing:
    """One policy's splits, by rising ratio.

    How full a pool is does not tell whether it is too small: KV fills up with what no state makes usable. So the pool
    that binds is the one that the best split gives more memory.
    """

    policy: str
    splits: Sequence[Split]

    @property
    def best(self) -> Split:
        """The split with most hit tokens, of equals the one nearest to SGLang's default."""
        return max(self.splits, key=lambda split: (split.result.token_hit_rate, -abs(split.ratio - DEFAULT_RATIO)))

    def binding_pool(self, split: Split) -> Literal["states", "KV", "neither"]:
        """Which pool is too small in a split, for this policy and trace."""
        if split.result.token_hit_rate == self.best.result.token_hit_rate:
            return "neither"
        return "states" if split.ratio < self.best.ratio else "KV"

    @property
    def default(self) -> Split | None:
        """The split that SGLang makes when nothing is said; None if the memory does not allow it."""
        return next((split for split in self.splits if split.ratio == DEFAULT_RATIO), None)


def size_pools(
    trace: _core.Trace,
    run: ReplayRun,
    policies: Sequence[str],
    memory_bytes: int,
    threads: int | None = None,
    on_progress: Callable[[float], None] = lambda _: None,
) -> list[Sizing]:
    """Replay policies with many splits of the memory, then with finer ones around each policy's best.

    Args:
        trace: what ``read_trace`` gives.
        run: with ``pools``, whose two sizes are replaced.
        policies: names of ``POLICIES``.
        memory_bytes: of both pools.
        threads: native threads.
        on_progress: called with the fraction that is done.

    Raises:
        ValueError: no split holds the largest request, or the model has only one kind of memory.
    """
    sizings = []
    for number, policy in enumerate(policies):
        policy_run = dataclasses.replace(run, policy=policy)

        def progress(fraction: float, done: int = 2 * number) -> None:
            on_progress((done + fraction) / (2 * len(policies)))

        ratios = sorted({DEFAULT_RATIO, *(_ratio(share) for share in _STATE_SHARES)})
        splits = _replay(trace, policy_run, memory_bytes, ratios, threads, progress)
        finer = _between_neighbours(splits, Sizing(policy, splits).best)
        splits += _replay(trace, policy_run, memory_bytes, finer, threads, lambda f: progress(1 + f))
        sizings.append(Sizing(policy, sorted(splits, key=lambda split: split.ratio)))
    return sizings


def _ratio(state_share: float) -> float:
    """Rounded as one would type it, so that the flag gives the very split that was replayed."""
    return float(f"{state_share / (1 - state_share):.3g}")


def _between_neighbours(splits: Sequence[Split], best: Split) -> list[float]:
    shares = [split.ratio / (1 + split.ratio) for split in splits]
    place = splits.index(best)
    finer = set()
    for low, high in zip(shares[max(0, place - 1) : place + 1], shares[place : place + 2], strict=False):
        finer |= {_ratio(low + (high - low) * step / _FINER_STEPS) for step in range(1, _FINER_STEPS)}
    return sorted(finer - {split.ratio for split in splits})


def _replay(
    trace: _core.Trace,
    run: ReplayRun,
    memory_bytes: int,
    ratios: Sequence[float],
    threads: int | None,
    on_progress: Callable[[float], None],
) -> list[Split]:
    cost = total_cost(run.model)
    runs = []
    refused: ValueError | None = None
    possible = []
    for ratio in ratios:
        try:
            kv_tokens, states = split_memory(memory_bytes, cost, ratio)
        except ValueError as error:  # too little for one of the two
            refused = error
            continue
        assert run.pools is not None
        pools = dataclasses.replace(run.pools, kv_tokens=kv_tokens, states=states)
        runs.append(dataclasses.replace(run, pools=pools, capacity_bytes=pools.total_bytes(cost)))
        possible.append(ratio)
    if refused is not None and not runs and len(ratios) > 1:
        raise refused
    results = run_search(trace, runs, threads, on_progress)
    return [_split(ratio, run, result) for ratio, run, result in zip(possible, runs, results, strict=True)]


def _split(ratio: float, run: ReplayRun, result: RunResult) -> Split:
    assert run.pools is not None
    cost, native, half = total_cost(run.model), result.native, len(result.native) // 2
    kv_fill = native.kv_bytes[half:].mean() / (run.pools.kv_tokens * cost.kv_bytes_per_token)
    state_fill = native.state_bytes[half:].mean() / (run.pools.states * cost.state_bytes)
    return Split(ratio, run.pools, result, float(kv_fill), float(state_fill))
