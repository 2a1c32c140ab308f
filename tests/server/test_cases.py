"""What people who serve hybrid models reported, with the right values.

The last decoded token's state is exact; with ``extra_buffer`` the others lie on a grid of 64 tokens.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from itertools import chain

import pytest
from conftest import STRATEGIES, ServerFactory, Tokens, check_pools_whole, marconi
from random_requests import check_exact

from sglang_marconi.platform.server import TinyServer

LARGE = {"max-total-tokens": 40_000, "max-mamba-cache-size": 60}


@pytest.fixture(scope="module", params=sorted(STRATEGIES))
def strategy(request: pytest.FixtureRequest) -> str:
    """Each strategy in turn; the tests of one share its server."""
    chosen: str = request.param
    return chosen


def prompts_sharing_75_tokens() -> list[list[int]]:
    tokens = Tokens(1)
    shared = tokens(75)
    return [shared + tokens(40) for _ in range(4)]


def hits(server: TinyServer, prompts: list[list[int]], reply_len: int = 2) -> list[int]:
    return [server.generate(prompt, reply_len, logprobs=False).cached_tokens for prompt in prompts]


def test_third_request_hits_the_shared_prefix(serve: ServerFactory, strategy: str) -> None:
    server = serve(strategy=strategy, flags=LARGE)
    expected = {"no_buffer": [0, 0, 75, 75], "extra_buffer": [0, 0, 64, 64]}[strategy]
    assert hits(server, prompts_sharing_75_tokens()) == expected
    check_pools_whole(server)


def test_case_1_same_prompt_three_times(serve: ServerFactory, strategy: str) -> None:
    server = serve(strategy=strategy, flags=LARGE)
    third = hits(server, [Tokens(2)(300)] * 3)[2]
    assert third == 299 if strategy == "no_buffer" else third >= 256
    check_pools_whole(server)


def test_case_2_shift_by_100_tokens_never_drops_the_rate_to_zero(serve: ServerFactory, strategy: str) -> None:
    tokens = Tokens(3)
    prefix = tokens(1600)
    server = serve(strategy=strategy, flags=LARGE)
    assert hits(server, [prefix + tokens(600) for _ in range(6)], 1)[2:] == [1600] * 4
    shifted = hits(server, [prefix[:1500] + tokens(700) for _ in range(5)], 1)
    assert shifted[2:] == [1500 if strategy == "no_buffer" else 1472] * 3
    check_pools_whole(server)


def test_case_3_third_prompt_hits_the_common_prefix(serve: ServerFactory, strategy: str) -> None:
    tokens = Tokens(4)
    prefix = tokens(560)
    prompts = [prefix + tokens(tail) for tail in (1386, 900, 1200)]
    server = serve(strategy=strategy, flags=LARGE)
    third = hits(server, prompts)[2]
    assert third == 560 if strategy == "no_buffer" else third >= 512
    check_pools_whole(server)


def test_case_4_one_output_token_then_the_next_turn(serve: ServerFactory, strategy: str) -> None:
    tokens = Tokens(5)
    first = tokens(561)
    server = serve(strategy=strategy, flags=LARGE)
    assert hits(server, [first, first + tokens(40)], reply_len=1)[1] == 561
    check_pools_whole(server)


def test_turns_that_leave_the_stop_token_out(serve: ServerFactory, strategy: str) -> None:
    """With overlap the only state includes it: the second such turn hits the branch point that the first one left."""
    tokens = Tokens(9)
    prompt = tokens(130)
    server = serve(strategy=strategy, flags=LARGE)
    stop = server.generate(prompt, 10, logprobs=False).token_ids[-1]
    server.flush()
    reply = server.generate(prompt, 20, logprobs=False, ignore_eos=False, stop_token_ids=[stop]).token_ids
    without_stop = prompt + reply[:-1]
    expected = {"no_buffer": [len(without_stop)] * 2, "extra_buffer": [0, 128]}[strategy]
    assert hits(server, [without_stop + tokens(20), without_stop + tokens(20)]) == expected
    check_pools_whole(server)


@pytest.mark.parametrize("prompt_tokens", [110, 300])
def test_cases_7_and_8_smallest_state_pool_serves_everybody(
    serve: ServerFactory, strategy: str, prompt_tokens: int
) -> None:
    """One running request fills the pool, also while its chunks (128 tokens) go to the tree; nothing is lost."""
    tokens = Tokens(6)
    shared = tokens(80)
    prompts = [shared + tokens(prompt_tokens - 80 + 5 * number) for number in range(6)]
    smallest = {"no_buffer": 3, "extra_buffer": 5}[strategy]
    server = serve(strategy=strategy, flags={"max-mamba-cache-size": smallest, "chunked-prefill-size": 128})
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda prompt: server.generate(prompt, 12), prompts))
    check_pools_whole(server)
    check_exact(server, list(zip(prompts, answers, strict=True)))


def test_case_9_aborted_waiting_request_loses_no_slot(serve: ServerFactory, strategy: str) -> None:
    tokens = Tokens(7)
    server = serve(strategy=strategy, flags={**LARGE, "max-running-requests": 1})
    history = tokens(200)
    history += server.generate(history, 80, logprobs=False).token_ids
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(server.generate, tokens(100), 150, logprobs=False)
        while marconi(server)["pools"]["kv"]["locked"] == 0:
            assert not running.done()
        waiting = pool.submit(server.generate, history + tokens(20), 100, rid="waiting")
        while not wait([waiting], timeout=0.05).done:
            server.abort("waiting")  # of no effect before the request has arrived
        running.result()
        with pytest.raises(RuntimeError, match="abort"):
            waiting.result()
    check_pools_whole(server)


def test_case_10_leaves_in_use_are_not_evicted(serve: ServerFactory, strategy: str) -> None:
    """Every cached token belongs to running requests when more want room: those behind them wait."""
    tokens = Tokens(8)
    server = serve(strategy=strategy, flags={"max-total-tokens": 1024, "max-mamba-cache-size": 24})
    shared = tokens(150)
    server.generate(shared, 2)
    prompts = [shared + tokens(60) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda prompt: server.generate(prompt, 100), prompts))
    check_pools_whole(server)
    check_exact(server, list(zip(prompts, answers, strict=True)))
    check_pools_whole(server)


@pytest.mark.parametrize("rounds_kept", [1, 3])
def test_cases_11_and_12_prompts_that_cut_their_history(serve: ServerFactory, strategy: str, rounds_kept: int) -> None:
    """All but the last rounds lose their replies: thinking dropped (11), or old observations (12).

    A prompt leaves its predecessor in the round that it cuts first, and the state that it leaves there is what the
    next one hits: all but the 40 tokens that are stable since.
    """
    tokens = Tokens(10 + rounds_kept)
    server = serve(strategy=strategy, flags=LARGE)
    system, rounds = tokens(200), list[list[int]]()
    for turn in range(8):
        cut = max(0, len(rounds) - rounds_kept)
        question = tokens(40)
        prompt = [*system, *chain.from_iterable([done[:40] for done in rounds[:cut]] + rounds[cut:]), *question]
        answer = server.generate(prompt, 30, logprobs=False)
        if turn >= rounds_kept + 2:
            stable = len(system) + 40 * (cut - 1)
            assert stable - (0 if strategy == "no_buffer" else 63) <= answer.cached_tokens <= stable
        rounds.append(question + answer.token_ids + tokens(50))
    check_pools_whole(server)


def test_sglangs_own_cache_on_the_prompts_that_share_75_tokens(serve: ServerFactory, strategy: str) -> None:
    server = serve(strategy=strategy, backend=None, flags=LARGE)
    # On the grid the first request leaves a state inside the shared prefix.
    expected = {"no_buffer": [0, 0, 0, 0], "extra_buffer": [0, 64, 64, 64]}[strategy]
    assert hits(server, prompts_sharing_75_tokens()) == expected
