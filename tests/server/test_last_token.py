"""With ``extra_buffer`` a finished request stays cached up to its last token, in every mode that allows it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import ServerFactory, Tokens, check_pools_whole
from random_requests import LOGPROB_TOLERANCE

from sglang_marconi.platform.server import TinyServer

PAGE_TOKENS = 16
LARGE = {"max-total-tokens": 40_000, "max-mamba-cache-size": 120}
MODES: dict[str, dict[str, object]] = {
    "no overlap": {"disable-overlap-schedule": True},
    "pages": {"page-size": PAGE_TOKENS},
}


@pytest.fixture(scope="module", params=sorted(MODES))
def mode(request: pytest.FixtureRequest) -> str:
    """Each mode in turn; the tests of one share its server."""
    chosen: str = request.param
    return chosen


def check_answers(server: TinyServer, prompts: list[list[int]], cached: list[int] | None = None) -> None:
    """Raises unless each prompt, asked in turn, gets what an empty cache gives, with so many tokens cached."""
    warm = [server.generate(prompt, 4) for prompt in prompts]
    if cached is not None:
        assert [answer.cached_tokens for answer in warm] == cached
    check_pools_whole(server)
    for prompt, answer in zip(prompts, warm, strict=True):
        server.flush()
        cold = server.generate(prompt, 4)
        assert answer.token_ids == cold.token_ids
        assert answer.logprobs == pytest.approx(cold.logprobs, abs=LOGPROB_TOLERANCE)


@pytest.mark.parametrize("reply_len", [1, 10, 15])
def test_reply_that_ends_by_length(serve: ServerFactory, mode: str, reply_len: int) -> None:
    """Its last token has no state; off a page's end the prompt's state on the grid of 64 is what a key can name."""
    tokens = Tokens(11)
    prompt = tokens(130)
    server = serve(strategy="extra_buffer", flags={**LARGE, **MODES[mode]})
    history = prompt + server.generate(prompt, reply_len).token_ids
    computed = len(history) - 1
    fits = mode != "pages" or computed % PAGE_TOKENS == 0
    check_answers(server, [history + tokens(20)], [computed if fits else 128])


def test_reply_that_ends_by_a_stop_token(serve: ServerFactory, mode: str) -> None:
    """Overlap ran the stop token before it was seen: it belongs to the state, and a page may end with it."""
    tokens = Tokens(12)
    prompt = tokens(130)
    server = serve(strategy="extra_buffer", flags={**LARGE, **MODES[mode]})
    reply = server.generate(prompt, 46).token_ids
    # The reply up to a token that is new in it, at the end of a page.
    length = next(n for n in (14, 30, 46) if reply[n - 1] not in reply[: n - 1])
    server.flush()
    stopped = server.generate(prompt, 60, ignore_eos=False, stop_token_ids=[reply[length - 1]]).token_ids
    assert stopped == reply[:length]
    history = prompt + stopped
    check_answers(server, [history + tokens(20)], [len(history) - (mode == "no overlap")])


def test_requests_that_stop_or_are_aborted_side_by_side(serve: ServerFactory, mode: str) -> None:
    """Rows leave the batch at different steps; every next turn is answered as without cache, and no slot is lost."""
    tokens = Tokens(13)
    shared = tokens(70)
    prompts = [shared + tokens(20 + 7 * number) for number in range(12)]
    server = serve(strategy="extra_buffer", flags={**LARGE, **MODES[mode]})

    def ask(number: int) -> list[int]:
        stop = list(range(10 + number, 400, 12))
        answer = server.generate(prompts[number], 5 + 3 * number, ignore_eos=False, stop_token_ids=stop)
        return prompts[number] + answer.token_ids

    with ThreadPoolExecutor(14) as pool:
        doomed = [pool.submit(server.generate, prompts[0] + [11, n], 3000, rid=f"doomed-{n}") for n in range(2)]
        histories = list(pool.map(ask, range(12)))
        while not all(request.done() for request in doomed):
            for number in range(2):
                server.abort(f"doomed-{number}")
        for request in doomed:
            with pytest.raises(RuntimeError, match="abort"):
                request.result()
    check_answers(server, [history + tokens(10) for history in histories])


def test_a_branch_point_and_the_prompts_end_are_both_kept(serve: ServerFactory) -> None:
    """SGLang tracks one state a pass; stopping the prefill at the branch point makes two passes of it."""
    tokens = Tokens(14)
    shared = tokens(100)
    branching = shared + tokens(150)
    policy = {"admit_prompt_end": "always"}
    server = serve(strategy="extra_buffer", flags={**LARGE, "radix-eviction-policy-config": policy})
    for prompt in (shared + tokens(60), branching):
        server.generate(prompt, 2)
    check_answers(server, [shared + tokens(20), branching[:200] + tokens(20)], [64, 192])
