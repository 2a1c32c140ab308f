"""Every family of tiny models on SGLang's own cache: it serves what transformers computes, and reuses its states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import STRATEGIES, ServerFactory, Tokens

from sglang_marconi.platform.models import FAMILIES
from sglang_marconi.platform.server import TinyServer

torch = pytest.importorskip("torch", reason="the reference outputs are torch's")

#: Float32: SGLang and transformers order their sums differently.
REFERENCE_TOLERANCE = 5e-4
#: Float32: a resumed pass orders its sums differently from a whole one; seen up to 2.3e-6.
HIT_TOLERANCE = 2e-5
#: The other strategy of the other families is in test_outputs.py.
CASES = [*((family, "no_buffer") for family in FAMILIES), ("falcon_h1", "extra_buffer")]
PROMPT_TOKENS = 200
REPLY_TOKENS = 8


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def case(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A family and a strategy; the tests of one case share its server."""
    chosen: tuple[str, str] = request.param
    return chosen


@pytest.fixture
def server(serve: ServerFactory, case: tuple[str, str]) -> TinyServer:
    """SGLang with its own cache, empty."""
    family, strategy = case
    return serve(family, strategy, backend=None)


def transformers_logprobs(model: Path, prompt: list[int]) -> list[float]:
    """Of each id of the prompt but the first, given those before it."""
    from transformers import AutoModelForCausalLM

    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    with torch.no_grad():
        logprobs = torch.log_softmax(network(torch.tensor([prompt])).logits[0], dim=-1)
    values: list[float] = logprobs[torch.arange(len(prompt) - 1), torch.tensor(prompt[1:])].tolist()
    return values


def test_the_server_computes_what_transformers_computes(
    server: TinyServer, case: tuple[str, str], tiny_model: Callable[[str], Path]
) -> None:
    prompt = Tokens(seed=3)(150)
    answer = server.generate(prompt, 1, logprob_start=0)
    expected = transformers_logprobs(tiny_model(case[0]), prompt)
    assert answer.input_logprobs == pytest.approx(expected, abs=REFERENCE_TOLERANCE)


def test_two_prompts_give_different_logprobs(server: TinyServer) -> None:
    tokens = Tokens(seed=4)
    one, other = (server.generate(tokens(PROMPT_TOKENS), REPLY_TOKENS) for _ in range(2))
    assert max(abs(a - b) for a, b in zip(one.logprobs, other.logprobs, strict=True)) > 0.1


def test_states_are_reused_and_answers_stay_the_same(server: TinyServer, case: tuple[str, str]) -> None:
    _family, strategy = case
    tokens = Tokens(seed=5)
    prompt = tokens(PROMPT_TOKENS)
    cold = server.generate(prompt, REPLY_TOKENS)
    sibling = prompt + tokens(1)
    next_turn = prompt + cold.token_ids + tokens(30)
    hits = [server.generate(sibling, REPLY_TOKENS), server.generate(next_turn, REPLY_TOKENS)]

    assert cold.cached_tokens == 0
    on_grid = strategy == "extra_buffer"
    # The last generated token has no state yet; extra_buffer keeps states on a grid of 64.
    expected = [192, 192] if on_grid else [PROMPT_TOKENS, PROMPT_TOKENS + REPLY_TOKENS - 1]
    assert [hit.cached_tokens for hit in hits] == expected
    for text, hit in zip([sibling, next_turn], hits, strict=True):
        server.flush()
        fresh = server.generate(text, REPLY_TOKENS)
        assert fresh.cached_tokens == 0
        assert hit.token_ids == fresh.token_ids
        assert hit.logprobs == pytest.approx(fresh.logprobs, abs=HIT_TOLERANCE)


@pytest.fixture(scope="module", params=["falcon_h1", "qwen3_next", "lfm2"])
def corrupted(request: pytest.FixtureRequest, tiny_model: Callable[[str], Path]) -> Iterator[TinyServer]:
    """A server whose resumed states are off by 2 %: selective scan, gated delta net, short convolution."""
    flags = STRATEGIES["no_buffer"]
    with TinyServer(tiny_model(request.param), flags=flags, module="corrupted_server") as server:
        yield server


def test_a_wrong_state_shows_in_the_logprobs(corrupted: TinyServer) -> None:
    tokens = Tokens(seed=6)
    prompt = tokens(PROMPT_TOKENS)
    corrupted.generate(prompt, REPLY_TOKENS)
    sibling = prompt + tokens(1)
    hit = corrupted.generate(sibling, 1)
    corrupted.flush()
    fresh = corrupted.generate(sibling, 1)
    assert (hit.cached_tokens, fresh.cached_tokens) == (PROMPT_TOKENS, 0)
    assert abs(hit.logprobs[0] - fresh.logprobs[0]) > 10 * HIT_TOLERANCE
