"""Policy belady is an upper bound: against exhaustive search on tiny traces, against every policy on others."""

from __future__ import annotations

import itertools
import random

import pytest
from random_traces import Requests, Tokens, random_requests, trace_of

from sglang_marconi.cost import PrefixCost
from sglang_marconi.sim import ReplayRun, replay

COST = PrefixCost(3.0, 0.5, 1, 3)


def held_bytes(states: frozenset[Tokens]) -> int:
    kv = {state[:n] for state in states for n in range(1, len(state) + 1)}
    return len(kv) * COST.kv_bytes_per_token + len(states) * COST.state_bytes


def most_hit_tokens(requests: Requests, capacity: int) -> int:
    """The best of all ways to keep states, anywhere on a sequence, after every request."""
    best: dict[frozenset[Tokens], int] = {frozenset(): 0}
    most_states = capacity // COST.state_bytes
    for prompt, reply in requests:
        sequence = prompt + reply
        prefixes = [sequence[:n] for n in range(1, len(sequence) + 1)]
        after: dict[frozenset[Tokens], int] = {}
        for states, hits in best.items():
            hits += max((n for n in range(1, len(prompt)) if prompt[:n] in states), default=0)
            for count in range(most_states + 1):
                for kept in itertools.combinations(sorted(states | set(prefixes)), count):
                    content = frozenset(kept)
                    if held_bytes(content) <= capacity:
                        after[content] = max(after.get(content, 0), hits)
        best = after
    return max(best.values())


@pytest.mark.parametrize("seed", range(60))
def test_bound_is_at_least_the_best_of_all_schedules(seed: int) -> None:
    rng = random.Random(seed)
    requests = random_requests(rng, 6, 5, 2)
    capacity = rng.choice([4, 6, 8, 11])
    bound = replay(trace_of(requests), ReplayRun("belady", capacity, COST)).native.total_hit_tokens
    best = most_hit_tokens(requests, capacity)
    assert bound >= best - 1e-9, f"seed {seed}: bound {bound}, best {best}, {requests}, {capacity} bytes"


def test_bound_is_reached_when_everything_fits() -> None:
    requests = random_requests(random.Random(1), 30, 16, 3)
    trace = trace_of(requests)
    bound = replay(trace, ReplayRun("belady", 10**9, COST)).native
    seen = bound.hit_tokens + bound.evicted_tokens
    for (prompt, _), hit, known in zip(requests, bound.hit_tokens, seen, strict=True):
        assert hit == min(known, max(0, len(prompt) - 1))


@pytest.mark.parametrize("seed", range(40))
def test_no_policy_passes_the_bound(seed: int) -> None:
    rng = random.Random(seed)
    # Replies and turns long enough for the block policies' grids.
    requests = [
        (tuple(t for t in prompt for _ in range(16)), tuple(t for t in reply for _ in range(16)))
        for prompt, reply in random_requests(rng, 60, 24, 3)
    ]
    trace = trace_of(requests)
    capacity = rng.choice([100, 400, 1500, 5000])
    bound = replay(trace, ReplayRun("belady", capacity, COST)).native
    for policy in ("none", "vllm", "sglang", "sglang-native", "marconi"):
        native = replay(trace, ReplayRun(policy, capacity, COST, 0.5)).native
        assert native.total_hit_tokens <= bound.total_hit_tokens + 1e-6, f"seed {seed}, {policy}"
        assert native.total_flops_saved <= bound.total_flops_saved * (1 + 1e-12) + 1e-6, f"seed {seed}, {policy}"
