"""Prefills that stop at branch points, under load and at the edges: exact, and one scheduling step at most."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import STRATEGIES, STRICT, ServerFactory, Tokens, check_pools_whole, marconi
from random_requests import Served, check_exact

from sglang_marconi.platform.server import Generation, TinyServer

CHUNK = 256
LARGE = {"max-total-tokens": 40_000, "max-mamba-cache-size": 60, "chunked-prefill-size": CHUNK}
GRID = 64


@pytest.fixture(scope="module", params=sorted(STRATEGIES))
def strategy(request: pytest.FixtureRequest) -> str:
    """Each strategy in turn; the tests of one share its server where their flags allow."""
    chosen: str = request.param
    return chosen


def at(position: int, strategy: str) -> int:
    """Where a prefill from the start leaves the state nearest to a branch point."""
    return position if strategy == "no_buffer" else position // GRID * GRID


def together(server: TinyServer, prompts: list[list[int]], reply_tokens: int = 2) -> list[Served]:
    with ThreadPoolExecutor(len(prompts)) as pool:
        answers = list(pool.map(lambda prompt: server.generate(prompt, reply_tokens), prompts))
    return list(zip(prompts, answers, strict=True))


def one_by_one(server: TinyServer, prompts: list[list[int]]) -> list[Generation]:
    return [server.generate(prompt, 2) for prompt in prompts]


def test_requests_that_want_a_branch_in_one_batch_are_all_served_exactly(serve: ServerFactory, strategy: str) -> None:
    """One of them splits at a time; the others go on whole, and are counted."""
    tokens = Tokens(31)
    server = serve(strategy=strategy, flags=LARGE)
    before = marconi(server)["stats"]
    shared = [tokens(75) for _ in range(6)]
    one_by_one(server, [prefix + tokens(20) for prefix in shared])
    served = together(server, [prefix + tokens(30) for prefix in shared])
    stats = marconi(server)["stats"]
    admitted = stats["branch_states_admitted"] - before["branch_states_admitted"]
    skipped = stats["branch_skipped_chunk_in_flight"] - before["branch_skipped_chunk_in_flight"]
    assert admitted >= 1
    assert admitted + skipped >= len(shared)
    third = one_by_one(server, [prefix + tokens(40) for prefix in shared])
    assert [answer.cached_tokens for answer in third].count(at(75, strategy)) == admitted
    check_pools_whole(server)
    check_exact(server, served)


@pytest.mark.parametrize("position", [75, 300, 700])
def test_a_branch_inside_a_prompt_of_several_chunks(serve: ServerFactory, strategy: str, position: int) -> None:
    tokens = Tokens(32 + position)
    server = serve(strategy=strategy, flags=LARGE)
    shared = tokens(position)
    prompts = [shared + tokens(600) for _ in range(3)]
    answers = one_by_one(server, prompts)
    assert answers[2].cached_tokens == at(position, strategy)
    check_pools_whole(server)
    check_exact(server, list(zip(prompts, answers, strict=True)))


def test_a_branch_at_the_last_token_of_a_prompt(serve: ServerFactory) -> None:
    tokens = Tokens(33)
    server = serve(strategy="no_buffer", flags=LARGE)
    shared = tokens(120)
    prompts = [shared + tokens(40), shared + tokens(1), shared + tokens(1)]
    answers = one_by_one(server, prompts)
    assert [answer.cached_tokens for answer in answers] == [0, 0, 120]
    check_pools_whole(server)
    check_exact(server, list(zip(prompts, answers, strict=True)))


def test_a_branch_that_gains_less_than_asked_is_not_kept(serve: ServerFactory) -> None:
    tokens = Tokens(34)
    server = serve(strategy="no_buffer", flags=LARGE)
    for shared_tokens, hit in ((1, 0), (31, 0), (32, 32)):
        shared = tokens(shared_tokens)
        assert one_by_one(server, [shared + tokens(40) for _ in range(3)])[2].cached_tokens == hit
    check_pools_whole(server)


def test_a_branch_after_one_token_when_any_gain_is_enough(serve: ServerFactory) -> None:
    tokens = Tokens(35)
    server = serve(strategy="no_buffer", flags={**LARGE, "radix-eviction-policy-config": {"min_branch_gain": 0}})
    shared = tokens(1)
    prompts = [shared + tokens(40) for _ in range(3)]
    answers = one_by_one(server, prompts)
    assert [answer.cached_tokens for answer in answers] == [0, 0, 1]
    check_pools_whole(server)
    check_exact(server, list(zip(prompts, answers, strict=True)))


def test_a_prefill_budget_smaller_than_the_piece(serve: ServerFactory) -> None:
    tokens = Tokens(36)
    server = serve(strategy="no_buffer", flags={**LARGE, "chunked-prefill-size": 64})
    shared = tokens(150)
    prompts = [shared + tokens(100) for _ in range(3)]
    answers = one_by_one(server, prompts)
    assert answers[2].cached_tokens == 150
    served = together(server, [shared + tokens(90 + 20 * number) for number in range(6)])
    check_pools_whole(server)
    check_exact(server, [*zip(prompts, answers, strict=True), *served])


def test_case_6_a_long_prompt_in_chunks_leaves_two_states(serve: ServerFactory, strategy: str) -> None:
    """The branch point and the last token's; the next turn hits all."""
    tokens = Tokens(37)
    server = serve(strategy=strategy, flags=LARGE)
    shared = tokens(448)
    first = shared + tokens(100)
    server.generate(first, 2)
    states = marconi(server)["pools"]["states"]["cached"]
    assert states == 1
    long = shared + tokens(7 * CHUNK + 30)
    answer = server.generate(long, 5)
    assert marconi(server)["pools"]["states"]["cached"] == states + 2
    history = long + answer.token_ids
    # The last token's state stands before it: it was sampled, not computed.
    assert server.generate(history + tokens(20), 2).cached_tokens == len(history) - 1
    check_pools_whole(server)


def test_branches_and_replies_on_pages(serve: ServerFactory) -> None:
    tokens = Tokens(38)
    server = serve(strategy="extra_buffer", flags={**LARGE, "page-size": 16})
    shared = tokens(150)
    prompts = [shared + tokens(100 + number) for number in range(3)]
    answers = one_by_one(server, prompts)
    assert answers[2].cached_tokens == 128
    served = together(server, [shared + tokens(60 + 7 * number) for number in range(5)])
    check_pools_whole(server)
    check_exact(server, [*zip(prompts, answers, strict=True), *served])


def test_chunks_that_must_end_on_a_grid_are_not_split(tiny_model: Callable[[str], Path]) -> None:
    tokens = Tokens(39)
    flags = {**STRATEGIES["no_buffer"], **LARGE, "enable-metrics": True}
    model = tiny_model("falcon_h1")
    with TinyServer(model, backend="marconi", flags=flags, environment=STRICT, module="aligned_server") as server:
        shared = tokens(75)
        prompts = [shared + tokens(400) for _ in range(3)]
        answers = one_by_one(server, prompts)
        skipped = marconi(server)["stats"]["branch_skipped_no_chunking"]
        check_pools_whole(server)
        check_exact(server, list(zip(prompts, answers, strict=True)))
    assert skipped >= 1
