"""Session traces: one session a line, its tokens and where each reply starts and ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sglang_marconi._core import TokenTraceBuilder, Trace
from sglang_marconi.sim.traces.arrivals import Arrivals
from sglang_marconi.sim.traces.lines import Line


@dataclasses.dataclass(frozen=True)
class TokenSession:
    """A conversation.

    Args:
        name: of the session, for messages.
        tokens: uint32, all of them.
        turns: start and end of each reply: its request has the prompt ``tokens[:start]``.
    """

    name: int | str
    tokens: npt.NDArray[np.uint32]
    turns: list[tuple[int, int]]

    @property
    def reply_lengths(self) -> list[int]:
        """Tokens of each reply."""
        return [end - start for start, end in self.turns]


def build_session_trace(sessions: Iterator[TokenSession], arrivals: Arrivals) -> Trace:
    """The trace of all sessions' requests, in the order in which they arrive."""
    builder = TokenTraceBuilder()
    last_request: dict[int, int] = {}
    for arrival_s, number, session, turn in arrivals.schedule(sessions):
        start, end = session.turns[turn]
        reply = session.tokens[start:end]
        if turn == 0:
            last_request[number] = builder.add(session.tokens[:start], reply, arrival_s)
            continue
        kept = session.turns[turn - 1][1]
        last_request[number] = builder.add_continuation(
            last_request[number], kept, session.tokens[kept:start], reply, arrival_s
        )
    return builder.build()


def parse_session(line: Line) -> TokenSession:
    """``session``, ``tokens``, and ``turns`` = ``[[start, end], ...]``.

    Raises:
        ValueError: the turns do not fit the tokens.
    """
    tokens = line.tokens("tokens")
    turns = line.get("turns")
    rule = f"turns must be [[start, end], ...], rising and within the {len(tokens)} tokens"
    if not isinstance(turns, list):
        raise line.error(f"{rule}, got {turns!r}")
    last = 0
    for turn in turns:
        is_pair = isinstance(turn, list) and len(turn) == 2 and all(type(x) is int for x in turn)
        if not is_pair or not last <= turn[0] <= turn[1] <= len(tokens):
            raise line.error(f"{rule}, got {turn!r} after {last}")
        last = turn[1]
    name = line.value.get("session", line.number)
    return TokenSession(name if isinstance(name, int | str) else line.number, tokens, [(s, e) for s, e in turns])
