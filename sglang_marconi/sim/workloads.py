"""Synthetic sessions of the regimes that decide which caching policy wins.

Tokens are random numbers; what is equal and what differs between prompts is what counts. A regime yields requests as
lines of a token trace. Lengths are log-normal around their means, as those of real chats and agents are.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

VOCABULARY = 32_000
Tokens = list[int]
Turn = tuple[Tokens, Tokens]  # prompt, reply


@dataclasses.dataclass(frozen=True)
class WorkloadOptions:
    """Sizes of a workload.

    Args:
        sessions: how many.
        turns: mean of a session.
        shared_tokens: of a system prompt, a document or a block of examples.
        new_tokens: mean of what a turn adds: a question, an observation.
        reply_tokens: mean.
        variants: how many different system prompts, documents or blocks of examples there are.
        sessions_per_second: sessions start as a Poisson process.
        think_s: mean seconds from a reply to the next turn.
        reply_s_per_token: how long a reply takes.
        seed: the same seed gives the same workload.
    """

    sessions: int = 100
    turns: int = 8
    shared_tokens: int = 1000
    new_tokens: int = 150
    reply_tokens: int = 200
    variants: int = 4
    sessions_per_second: float = 0.5
    think_s: float = 15.0
    reply_s_per_token: float = 0.02
    seed: int = 0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            low = 0 if field.name in ("seed", "think_s", "reply_s_per_token") else 1e-9
            if not getattr(self, field.name) >= low:
                raise ValueError(
                    f"{field.name} must be {'>=' if low == 0 else '>'} 0, got {getattr(self, field.name)!r}"
                )


class _Draw:
    """Random tokens and lengths of one workload."""

    def __init__(self, options: WorkloadOptions, rng: random.Random) -> None:
        self.options = options
        self.rng = rng
        self.shared = [self.tokens(options.shared_tokens) for _ in range(options.variants)]
        self.popularity = [1 / (rank + 1) for rank in range(options.variants)]

    def tokens(self, count: int) -> Tokens:
        return [self.rng.randrange(VOCABULARY) for _ in range(count)]

    def length(self, mean: float, sigma: float = 0.8) -> int:
        return max(1, round(self.rng.lognormvariate(math.log(mean) - sigma * sigma / 2, sigma)))

    def new(self) -> Tokens:
        return self.tokens(self.length(self.options.new_tokens))

    def reply(self) -> Tokens:
        return self.tokens(self.length(self.options.reply_tokens))

    def turns(self) -> int:
        return 1 + round(self.rng.expovariate(1 / max(1e-9, self.options.turns - 1))) if self.options.turns > 1 else 1

    def opening(self) -> Tokens:
        return self.rng.choices(self.shared, self.popularity)[0]


def _chat(draw: _Draw, _number: int) -> Iterator[Turn]:
    """Each prompt extends the last prompt and reply."""
    history = list(draw.opening())
    for _ in range(draw.turns()):
        history += draw.new()
        reply = draw.reply()
        yield list(history), reply
        history += reply


def _agent(draw: _Draw, _number: int) -> Iterator[Turn]:
    """As a chat, with one tool prompt for all, three times as many turns and long observations."""
    history = list(draw.shared[0])
    for _ in range(3 * draw.turns()):
        history += draw.tokens(draw.length(4 * draw.options.new_tokens))
        reply = draw.reply()
        yield list(history), reply
        history += reply


_KEPT_OBSERVATIONS = 3


def _agent_cut(draw: _Draw, _number: int) -> Iterator[Turn]:
    """An agent that drops all observations but the first and the last three: prompts leave their history midway."""
    rounds: list[tuple[Tokens, Tokens]] = []
    for _ in range(3 * draw.turns()):
        rounds.append((draw.tokens(draw.length(4 * draw.options.new_tokens)), draw.reply()))
        prompt = list(draw.shared[0])
        for place, (observation, answer) in enumerate(rounds):
            is_kept = place == 0 or place >= len(rounds) - _KEPT_OBSERVATIONS
            prompt += observation if is_kept else observation[:8]
            if place < len(rounds) - 1:
                prompt += answer
        yield prompt, rounds[-1][1]


def _thinking(draw: _Draw, _number: int) -> Iterator[Turn]:
    """A chat with a model that thinks: the thoughts, half of a reply, are not in the next prompt."""
    history = list(draw.opening())
    for _ in range(draw.turns()):
        history += draw.new()
        thoughts, answer = draw.reply(), draw.reply()
        yield list(history), thoughts + answer
        history += answer


def _rag(draw: _Draw, _number: int) -> Iterator[Turn]:
    """A system prompt, three of the shared documents in any order, and a question; one turn."""
    documents = draw.rng.sample(draw.shared[1:], min(3, len(draw.shared) - 1)) if len(draw.shared) > 1 else []
    yield [*draw.shared[0], *(token for document in documents for token in document), *draw.new()], draw.reply()


def _few_shot(draw: _Draw, _number: int) -> Iterator[Turn]:
    """A block of examples and a question: a batch asks one block at a time."""
    for _ in range(draw.turns()):
        yield draw.opening() + draw.new(), draw.reply()


def _twice(draw: _Draw, number: int) -> Iterator[Turn]:
    """Long prefixes, each seen exactly twice: the second visit finds no state that judicious admission kept."""
    rng = random.Random(f"{draw.options.seed}-{number // 2}")
    prefix = [rng.randrange(VOCABULARY) for _ in range(4 * draw.options.shared_tokens)]
    yield prefix + draw.new(), draw.reply()


def _branching(draw: _Draw, _number: int) -> Iterator[Turn]:
    """A chat whose user goes back: a turn may go on from any earlier one, and a reply may be asked for again."""
    ends: list[Tokens] = [list(draw.opening())]
    for _ in range(draw.turns()):
        base = ends[-1] if draw.rng.random() < 0.6 else draw.rng.choice(ends)
        prompt, reply = base + draw.new(), draw.reply()
        yield prompt, reply
        ends.append(prompt + reply)
        if draw.rng.random() < 0.2:
            yield list(prompt), draw.reply()


def _shift(draw: _Draw, number: int) -> Iterator[Turn]:
    """Agents that cut observations in the first half, chats in the second."""
    return (_agent_cut if number < draw.options.sessions / 2 else _chat)(draw, number)


def _mixed(draw: _Draw, number: int) -> Iterator[Turn]:
    """Chats, every fifth session an agent."""
    return (_chat if number % 5 else _agent)(draw, number)


#: Name -> the turns of one session.
REGIMES: dict[str, Callable[[_Draw, int], Iterator[Turn]]] = {
    "chat": _chat,
    "agent": _agent,
    "agent-cut": _agent_cut,
    "thinking": _thinking,
    "rag": _rag,
    "few-shot": _few_shot,
    "twice": _twice,
    "branching": _branching,
    "mixed": _mixed,
    "shift": _shift,
}


def generate(regime: str, options: WorkloadOptions) -> Iterator[dict[str, Any]]:
    """The requests of a workload by time of arrival, as lines of a compact token trace.

    Args:
        regime: a name of ``REGIMES``.
        options: sizes, times and seed.

    Raises:
        ValueError: an unknown regime.
    """
    if regime not in REGIMES:
        raise ValueError(f"regime must be one of {', '.join(REGIMES)}, got {regime!r}")
    rng = random.Random(options.seed)
    draw = _Draw(options, rng)
    coming: list[tuple[float, int, int, Turn, Iterator[Turn]]] = []
    last: dict[int, Tokens] = {}
    start = 0.0
    for number in range(options.sessions + 1):
        start += rng.expovariate(options.sessions_per_second) if number else 0.0
        is_end = number == options.sessions
        while coming and (is_end or coming[0][0] <= start):
            arrival_s, session, turn, (prompt, reply), turns = heapq.heappop(coming)
            yield _line(session, turn, arrival_s, prompt, reply, last.get(session, []))
            last[session] = prompt + reply
            if (following := next(turns, None)) is None:
                del last[session]
                continue
            think_s = rng.expovariate(1 / options.think_s) if options.think_s else 0.0
            arrival_s += len(reply) * options.reply_s_per_token + think_s
            heapq.heappush(coming, (arrival_s, session, turn + 1, following, turns))
        if not is_end:
            turns = REGIMES[regime](draw, number)
            heapq.heappush(coming, (start, number, 0, next(turns), turns))


def _line(session: int, turn: int, arrival_s: float, prompt: Tokens, reply: Tokens, before: Tokens) -> dict[str, Any]:
    keep = next((i for i, (new, old) in enumerate(zip(prompt, before, strict=False)) if new != old), None)
    keep = min(len(prompt), len(before)) if keep is None else keep
    return {
        "session_id": session,
        "turn_id": turn,
        "ts": round(arrival_s, 3),
        "keep": keep,
        "delta": prompt[keep:],
        "output_tokens": reply,
    }
