"""Random requests as users send them: shared prefixes, conversations that go on, edited histories, bursts."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

from sglang_marconi.platform.server import Generation, TinyServer

#: Float32, logprobs of a few units: batches and ranks order its sums differently.
LOGPROB_TOLERANCE = 1e-4

Served = tuple[list[int], Generation]


class RandomRequests:
    """Draws and sends requests; the same seed gives the same ones.

    Args:
        seed: of every choice.
        max_tokens: of a prompt and its reply.
        burst: most requests sent at a time.
    """

    def __init__(self, seed: int, max_tokens: int = 400, burst: int = 8) -> None:
        self._rng = random.Random(seed)
        self._max_tokens = max_tokens
        self._burst = burst
        self._prefixes = [self._tokens(60, 150) for _ in range(4)]
        self._histories: list[list[int]] = []

    def send(self, server: TinyServer, count: int) -> list[Served]:
        """Send that many requests in bursts; returns each prompt with its answer."""
        served: list[Served] = []
        with ThreadPoolExecutor(self._burst) as pool:
            while len(served) < count:
                size = min(self._rng.randint(1, self._burst), count - len(served))
                prompts = [self._prompt() for _ in range(size)]
                replies = [self._rng.randint(1, 12) for _ in range(size)]
                answers = list(pool.map(server.generate, prompts, replies))
                self._histories += [prompt + answer.token_ids for prompt, answer in zip(prompts, answers, strict=True)]
                served += zip(prompts, answers, strict=True)
        return served

    def _prompt(self) -> list[int]:
        """A new conversation, the next turn of one, or one with its history edited."""
        choice = self._rng.random()
        recent = self._histories[-24:]
        if choice < 0.3 or not recent:
            return self._rng.choice(self._prefixes) + self._tokens(5, 60)
        history = self._rng.choice(recent)
        if choice < 0.5:
            history = history[: self._rng.randint(1, len(history))]
        return history[: self._max_tokens - 72] + self._tokens(1, 60)

    def _tokens(self, shortest: int, longest: int) -> list[int]:
        return [self._rng.randrange(10, 240) for _ in range(self._rng.randint(shortest, longest))]


def uncached_logprobs(server: TinyServer, served: list[Served]) -> list[list[float]]:
    """Logprobs of each answer's ids from one prefill of prompt and answer that reuses no state."""

    def score(prompt: list[int], answer: Generation) -> list[float]:
        whole = server.generate(prompt + answer.token_ids, 1, logprob_start=0)
        assert whole.cached_tokens == 0
        return whole.input_logprobs[-len(answer.token_ids) :]

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(score, *zip(*served, strict=True)))


def mismatches(server: TinyServer, served: list[Served]) -> list[str]:
    """The answers whose logprobs are not those of an uncached prefill."""
    found = []
    for (prompt, answer), expected in zip(served, uncached_logprobs(server, served), strict=True):
        worst = max(abs(a - b) for a, b in zip(answer.logprobs, expected, strict=True))
        if worst > LOGPROB_TOLERANCE:
            found.append(f"{worst:.1e} with {answer.cached_tokens} cached: {prompt}")
    return found


def check_exact(server: TinyServer, served: list[Served]) -> None:
    """Raises unless each answer has the logprobs of an uncached prefill."""
    assert not mismatches(server, served)
