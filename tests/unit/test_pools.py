"""The simulator's budget ``sglang``: two pools, requests in flight, a service model."""

from __future__ import annotations

import random

import numpy as np
import pytest
from random_traces import random_requests, tokens, trace_of

from sglang_marconi import _core
from sglang_marconi.cost import PAPER_7B, PrefixCost
from sglang_marconi.sim import ReplayRun, replay
from sglang_marconi.sim.pools import Pools, split_memory

COST = PrefixCost(3.0, 0.5, 1, 8)
SHARED = tuple(range(100, 140))
BRANCHES = [((*SHARED, n, n, n), (7, 8)) for n in range(4)]
POLICIES = ["sglang", "sglang-native", "marconi"]


def run(policy: str, pools: Pools, **options: float) -> ReplayRun:
    return ReplayRun(policy, pools.total_bytes(COST), COST, pools=pools, **options)


def test_third_request_hits_the_exact_branch_point() -> None:
    result = replay(trace_of(BRANCHES), run("marconi", Pools(10_000, 50))).native
    assert result.hit_tokens.tolist() == [0, 0, 40, 40]
    assert result.not_admitted_tokens.tolist() == [0, 40, 0, 0]


def test_sglangs_own_cache_has_no_state_at_the_branch_point() -> None:
    result = replay(trace_of(BRANCHES), run("sglang-native", Pools(10_000, 50))).native
    assert result.hit_tokens.tolist() == [0, 0, 0, 0]


def test_pages_cut_what_is_shared() -> None:
    branches = [((*SHARED, *[n] * 20), (7, 8)) for n in range(4)]
    result = replay(
        trace_of(branches), run("marconi", Pools(10_000, 50, page_size=16), min_branch_gain_tokens=32)
    ).native
    assert result.hit_tokens.tolist() == [0, 0, 32, 32]


def test_prompt_end_is_kept_when_asked() -> None:
    prompt = tuple(range(50))
    trace = trace_of([(prompt, (1, 2)), ((*prompt, 9), (3, 4))])
    pools = Pools(10_000, 50)
    assert replay(trace, run("marconi", pools)).native.hit_tokens.tolist() == [0, 0]
    kept = ReplayRun("marconi", pools.total_bytes(COST), COST, pools=pools, admit_prompt_end=True)
    assert replay(trace, kept).native.hit_tokens.tolist() == [0, 50]


def two_turns(second_arrival_s: float) -> _core.Trace:
    builder = _core.TokenTraceBuilder()
    builder.add(tokens(range(50)), tokens(range(200, 210)))
    builder.add(tokens([*range(50), *range(200, 210), 1, 2, 3]), tokens([4, 5]), second_arrival_s)
    return builder.build()


def test_turn_that_comes_while_the_last_one_runs_finds_no_state() -> None:
    pools = Pools(10_000, 50, prefill_s_per_token=0.01, decode_s_per_token=0.1)
    early = replay(two_turns(0.6), run("marconi", pools)).native  # the first turn runs until 0.5 s + 1 s
    assert (early.hit_tokens[1], early.in_flight_tokens[1]) == (0, 59)
    late = replay(two_turns(2.0), run("marconi", pools)).native
    assert (late.hit_tokens[1], late.in_flight_tokens[1]) == (59, 0)


def test_request_waits_for_room_instead_of_failing() -> None:
    # Each request needs 62 KV slots of 100: the second waits for the first to finish.
    builder = _core.TokenTraceBuilder()
    for n in range(3):
        builder.add(tokens(range(1000 * n, 1000 * n + 60)), tokens([1, 2, 3]))
    pools = Pools(100, 10, prefill_s_per_token=0.01, decode_s_per_token=0.1)
    result = replay(builder.build(), run("marconi", pools)).native
    assert result.is_cached.all()
    assert result.leaf_victims.tolist() == [0, 2, 2]  # the reply's node and the prompt's


def test_prompt_longer_than_the_pool_evicts_nothing() -> None:
    small, large = ((1, 2, 3), (4, 5)), (tuple(range(10, 90)), (5,))
    result = replay(trace_of([small, large, ((1, 2, 3, 4, 9), ())]), run("marconi", Pools(40, 5))).native
    assert result.hit_tokens.tolist() == [0, 0, 4]
    assert result.is_cached.tolist() == [True, False, True]
    assert result.leaf_victims.sum() + result.inner_victims.sum() == 0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(10))
def test_pools_are_hard_and_every_token_has_a_reason(policy: str, seed: int) -> None:
    rng = random.Random(seed)
    requests = random_requests(rng, 200, 200, 3)
    pools = Pools(
        kv_tokens=rng.randrange(250, 600),
        states=rng.randrange(1, 12),
        page_size=rng.choice([1, 1, 4, 16]),
        chunked_prefill_size=rng.choice([16, 64, 8192]),
        prefill_s_per_token=rng.choice([0.0, 0.01]),
        decode_s_per_token=rng.choice([0.0, 0.02]),
        max_running_requests=rng.choice([1, 3, 100]),
    )
    trace = trace_of(requests)
    native = replay(trace, run(policy, pools, alpha=0.5)).native
    assert len(native) == len(requests)
    assert native.kv_bytes.max() <= pools.kv_tokens
    assert native.state_bytes.max() <= 8 * pools.states
    reasons = native.never_seen_tokens + native.not_admitted_tokens + native.evicted_tokens + native.in_flight_tokens
    assert np.array_equal(native.hit_tokens + reasons, [len(prompt) for prompt, _ in requests])
    bound = replay(trace, run("belady", pools)).native
    assert bound.total_hit_tokens >= native.total_hit_tokens


def test_auto_alpha_is_tuned() -> None:
    requests = random_requests(random.Random(5), 300, 60, 3)
    result = replay(trace_of(requests), run("marconi", Pools(400, 6), alpha="auto"))  # type: ignore[arg-type]
    assert result.native.tuned_after > 0


def test_memory_is_split_as_sglang_does() -> None:
    kv_tokens, states = split_memory(10 * 10**9, PAPER_7B, 0.9)
    assert states == int(10e9 * 0.9 / 1.9 // PAPER_7B.state_bytes) - 1
    assert kv_tokens == (10 * 10**9 - (states + 1) * PAPER_7B.state_bytes) // PAPER_7B.kv_bytes_per_token


def test_memory_for_less_than_one_state_is_refused() -> None:
    with pytest.raises(ValueError, match="hold 0 states of 26,787,840 bytes"):
        split_memory(10**6, PAPER_7B, 0.9)


def test_steps_that_do_not_follow_are_refused() -> None:
    options = run("marconi", Pools(1000, 5)).options()
    cache = _core.PoolCache(trace_of(BRANCHES), options)
    with pytest.raises(ValueError, match="request 0 is not in flight"):
        cache.finish(0)
    cache.arrive(0)
    with pytest.raises(ValueError, match="request 0 is in flight already"):
        cache.arrive(0)
    with pytest.raises(ValueError, match="request 0 did not start"):
        cache.finish(0)
    cache.start(0)
    cache.abort(0)
    assert (cache.free_kv_tokens, cache.free_states) == (1000 - 43, 5)  # what it published stays
    with pytest.raises(IndexError):
        cache.arrive(99)
