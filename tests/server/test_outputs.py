"""A cache hit never changes outputs: token ids and logprobs, every family, both strategies."""

from __future__ import annotations

import pytest
from conftest import STRATEGIES, ServerFactory, Tokens, check_pools_whole
from random_requests import LOGPROB_TOLERANCE

from sglang_marconi.platform.models import FAMILIES
from sglang_marconi.platform.server import Generation, TinyServer

HYBRID_FAMILIES = sorted(set(FAMILIES) - {"llama"})
#: SGLang refuses it: "extra_buffer is not supported for Lfm2ForCausalLM; use no_buffer".
NOT_IN_SGLANG = {("lfm2", "extra_buffer")}
COMBINATIONS = [
    (family, strategy)
    for family in HYBRID_FAMILIES
    for strategy in sorted(STRATEGIES)
    if (family, strategy) not in NOT_IN_SGLANG
]


def converse(server: TinyServer) -> list[tuple[list[int], Generation]]:
    """Prompts that share a prefix, then two conversations that go on, one of them edited."""
    tokens = Tokens(seed=7)
    shared, served = tokens(150), []

    def ask(prompt: list[int], reply_len: int) -> list[int]:
        answer = server.generate(prompt, reply_len)
        served.append((prompt, answer))
        return prompt + answer.token_ids

    for _ in range(3):
        ask(shared + tokens(40), 6)
    history = ask(shared + tokens(70), 20)
    longer = ask(history + tokens(30), 20)
    ask(longer + tokens(9), 6)
    ask(history[:190] + tokens(50), 6)
    ask(history[:190] + tokens(50), 6)
    return served


@pytest.fixture(scope="module", params=COMBINATIONS, ids="-".join)
def combination(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A family and a strategy; the tests of one combination share its server."""
    chosen: tuple[str, str] = request.param
    return chosen


def test_outputs_with_hits_equal_outputs_without_cache(serve: ServerFactory, combination: tuple[str, str]) -> None:
    server = serve(*combination)
    warm = converse(server)
    assert sum(answer.cached_tokens for _, answer in warm) > 600
    check_pools_whole(server)
    for prompt, answer in warm:
        server.flush()
        cold = server.generate(prompt, len(answer.token_ids))
        assert cold.cached_tokens == 0
        assert answer.token_ids == cold.token_ids
        assert answer.logprobs == pytest.approx(cold.logprobs, abs=LOGPROB_TOLERANCE)
    check_pools_whole(server)


@pytest.mark.parametrize("stops", [False, True], ids=["by length", "by stop token"])
def test_next_turn_hits_all_that_was_computed(serve: ServerFactory, combination: tuple[str, str], stops: bool) -> None:
    """Overlap computed the stop token before it was seen, and no mode computes the last token of a full reply."""
    tokens = Tokens(seed=8)
    prompt = tokens(110)
    server = serve(*combination)
    reply = server.generate(prompt, 9).token_ids
    server.flush()
    stop: dict[str, object] = {"ignore_eos": False, "stop_token_ids": reply[-1:]} if stops else {}
    history = prompt + server.generate(prompt, 20, **stop).token_ids
    next_prompt = history + tokens(20)
    warm = server.generate(next_prompt, 6)
    computed_last = stops and combination[1] == "extra_buffer"
    assert warm.cached_tokens == len(history) - (not computed_last)
    check_pools_whole(server)
    server.flush()
    cold = server.generate(next_prompt, 6)
    assert warm.token_ids == cold.token_ids
    assert warm.logprobs == pytest.approx(cold.logprobs, abs=LOGPROB_TOLERANCE)
