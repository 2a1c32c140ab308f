"""The native simulator: policies on hand-made traces, searches, and what it refuses."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from random_traces import random_requests, tokens, trace_of

from sglang_marconi import _core
from sglang_marconi.cost import PAPER_7B, PrefixCost
from sglang_marconi.sim import ReplayRun, replay, run_search
from sglang_marconi.sim.pools import Pools

COST = PrefixCost(3.0, 0.5, 1, 8)
SHARED = tuple(range(100, 140))
BRANCHES = [((*SHARED, n, n, n), (7, 8)) for n in range(4)]


def test_third_request_hits_the_shared_prefix() -> None:
    result = replay(trace_of(BRANCHES), ReplayRun("marconi", 10**6, COST)).native
    assert result.hit_tokens.tolist() == [0, 0, 40, 40]
    assert result.never_seen_tokens.tolist() == [43, 3, 3, 3]
    assert result.not_admitted_tokens.tolist() == [0, 40, 0, 0]


def test_branch_that_gains_little_gets_no_state() -> None:
    result = replay(trace_of(BRANCHES), ReplayRun("marconi", 10**6, COST, min_branch_gain_tokens=41)).native
    assert result.hit_tokens.tolist() == [0, 0, 0, 0]


def test_block_policy_keeps_a_state_every_32_tokens() -> None:
    result = replay(trace_of(BRANCHES), ReplayRun("vllm", 10**6, COST)).native
    assert result.hit_tokens.tolist() == [0, 32, 32, 32]
    assert result.state_bytes[-1] == 8


def test_native_policy_rounds_to_its_grid() -> None:
    prompt = tuple(range(200))
    result = replay(trace_of([(prompt, (1,)), (prompt, (2,))]), ReplayRun("sglang-native", 10**6, COST)).native
    assert result.hit_tokens.tolist() == [0, 192]


def test_what_cannot_fit_evicts_nothing_and_is_not_cached() -> None:
    small, large = ((1, 2, 3), (4,)), (tuple(range(10, 90)), (5,))
    trace = trace_of([small, large, ((1, 2, 3, 4, 5), ())])
    result = replay(trace, ReplayRun("marconi", 40, COST)).native
    assert result.hit_tokens.tolist() == [0, 0, 4]
    assert result.is_cached.tolist() == [True, False, True]
    assert result.leaf_victims.sum() + result.inner_victims.sum() == 0


@pytest.mark.parametrize("policy", ["vllm", "sglang", "sglang-native", "marconi"])
@pytest.mark.parametrize("seed", range(10))
def test_capacity_is_hard_and_every_token_has_a_reason(policy: str, seed: int) -> None:
    requests = random_requests(random.Random(seed), 200, 200, 3)
    capacity = 150
    native = replay(trace_of(requests), ReplayRun(policy, capacity, COST, 0.5)).native
    assert (native.kv_bytes + native.state_bytes).max() <= capacity
    accounted = native.hit_tokens + native.never_seen_tokens + native.not_admitted_tokens + native.evicted_tokens
    assert accounted.tolist() == [len(prompt) for prompt, _ in requests], f"seed {seed}"


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    trace = trace_of(random_requests(random.Random(5), 300, 60, 3))
    runs = [ReplayRun("marconi", 300, COST, alpha / 10) for alpha in range(21)]
    runs += [ReplayRun("marconi", 300, COST, "auto"), ReplayRun("oracle-alpha", 300, COST)]
    one, four = run_search(trace, runs, 1), run_search(trace, runs, 4)
    assert [r.summary() for r in one] == [r.summary() for r in four]
    assert [r.per_request() for r in one] == [r.per_request() for r in four]


def test_oracle_is_the_best_of_its_grid() -> None:
    trace = trace_of(random_requests(random.Random(5), 300, 60, 3))
    oracle = replay(trace, ReplayRun("oracle-alpha", 300, COST))
    for alpha in (0.0, 0.1, 1.0, 2.0):
        assert replay(trace, ReplayRun("marconi", 300, COST, alpha)).token_hit_rate <= oracle.token_hit_rate


def test_auto_alpha_is_tuned_after_the_window() -> None:
    trace = trace_of(random_requests(random.Random(5), 300, 60, 3))
    summary = replay(trace, ReplayRun("marconi", 300, COST, "auto")).summary()
    first = replay(trace, ReplayRun("marconi", 300, COST, 0.0)).native
    first_eviction = int(np.argmax(first.leaf_victims + first.inner_victims > 0)) + 1
    assert summary["tuned_after_requests"] == 6 * first_eviction


def test_cancelled_search_cuts_its_results_short() -> None:
    trace = trace_of(random_requests(random.Random(5), 200, 60, 3))
    runs = [ReplayRun("marconi", 300, COST, 1.0).options()] * 200
    search = _core.Search(trace, runs, 1)
    search.cancel()
    results = search.results()
    assert search.is_done and search.is_cancelled
    assert sum(map(len, results)) < search.total_requests


def test_chain_of_1500_turns_replays() -> None:
    builder = _core.TokenTraceBuilder()
    one = tokens((1, 2))
    builder.add(one, one)
    for turn in range(1, 1500):
        builder.add_continuation(turn - 1, 4 * turn, one, one)
    trace = builder.build()
    assert trace.nodes == 3001
    native = replay(trace, ReplayRun("marconi", 10**12, COST)).native
    assert native.hit_tokens.tolist() == [4 * turn for turn in range(1500)]


def test_continuation_equals_the_whole_prompt() -> None:
    requests = random_requests(random.Random(3), 60, 40, 2)
    builder = _core.TokenTraceBuilder()
    for number, (prompt, reply) in enumerate(requests):
        base = max(range(number), key=lambda n: _shared(sum(requests[n], ()), prompt), default=None)
        if base is None:
            builder.add(tokens(prompt), tokens(reply))
            continue
        keep = _shared(sum(requests[base], ()), prompt)
        builder.add_continuation(base, keep, tokens(prompt[keep:]), tokens(reply))
    run = ReplayRun("marconi", 200, COST, 0.5)
    expected = replay(trace_of(requests), run).native
    assert replay(builder.build(), run).native.hit_tokens.tolist() == expected.hit_tokens.tolist()


def _shared(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policy": "best"}, "policy must be one of"),
        ({"policy": "belady", "preset": "paper-artifact"}, "paper-artifact needs the cost by layer"),
        ({"alpha": "fast"}, 'alpha must be "auto" or a number >= 0'),
        ({"alpha": -1.0}, "alpha must be a finite number >= 0"),
        ({"alpha": float("nan")}, "alpha must be a finite number >= 0"),
        ({"capacity_bytes": -1}, "capacity_bytes must be in"),
        ({"capacity_bytes": 2**62}, "capacity_bytes must be in"),
        ({"recency": "square"}, "recency must be linear or inverse_age"),
        ({"bytes": "all"}, "bytes must be own or path"),
        ({"model": PrefixCost(1.0, 1.0, 2**40, 1)}, "kv_bytes_per_token must be in"),
        ({"pools": Pools(-1, 4)}, "kv_tokens must be in"),
        ({"pools": Pools(10, 2**50)}, "states must be in"),
        ({"pools": Pools(10, 4, page_size=0)}, "page_tokens must be in"),
        ({"pools": Pools(10, 4, chunked_prefill_size=0)}, "chunk_tokens must be >= 1"),
        ({"pools": Pools(10, 4, decode_s_per_token=-1.0)}, "seconds per token must be in"),
        ({"pools": Pools(10, 4, max_running_requests=0)}, "max_running_requests must be >= 1"),
        ({"pools": Pools(10, 4), "policy": "vllm"}, "policy vllm needs the budget bytes"),
        ({"admit_prompt_end": True}, "admit_prompt_end needs the budget sglang"),
    ],
)
def test_invalid_run_is_refused(change: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {"policy": "marconi", "capacity_bytes": 10, "model": PAPER_7B} | change
    with pytest.raises(ValueError, match=message):
        ReplayRun(**values).check()


def test_wrong_arrays_are_refused() -> None:
    builder = _core.TokenTraceBuilder()
    good = tokens((1, 2, 3, 4))
    for bad in (good.astype(np.int64), good.reshape(2, 2), good[::2], np.array(1, np.uint32)):
        with pytest.raises(TypeError, match="prompt must be a contiguous one-dimensional array of uint32"):
            builder.add(bad, good)
    with pytest.raises(ValueError, match="base must be an earlier request"):
        builder.add_continuation(0, 0, good, good)
    with pytest.raises(TypeError):
        builder.add_continuation(-1, 0, good, good)
    blocks = _core.BlockTraceBuilder(64)
    with pytest.raises(ValueError, match="has at most 1 whole blocks, got 2"):
        blocks.add(np.array([1, 2], np.uint64), 127, 0)
    with pytest.raises(ValueError, match="block_tokens must be > 0"):
        _core.BlockTraceBuilder(0)
    with pytest.raises(ValueError, match="threads must be >= 1"):
        _core.Search(builder.build(), [], 0)


def test_empty_traces_and_prompts_replay() -> None:
    assert len(replay(_core.TokenTraceBuilder().build(), ReplayRun("belady", 10, COST)).native) == 0
    trace = trace_of([((), ()), ((), (1,)), ((1, 2), ())])
    for policy in ("none", "vllm", "sglang", "sglang-native", "marconi", "belady"):
        assert replay(trace, ReplayRun(policy, 100, COST)).native.hit_tokens[0] == 0
