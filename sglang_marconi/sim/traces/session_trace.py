"""Session traces: one session a line, its tokens and where each reply starts and ends."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, Literal

from sglang_marconi._core import TokenTraceBuilder, Trace
from sglang_marconi.sim.traces.lines import Line

Arrival = Literal["round-robin", "sequential"]
ARRIVALS: tuple[Arrival, ...] = ("round-robin", "sequential")


@dataclasses.dataclass
class _Session:
    tokens: Any  # uint32
    turns: list[tuple[int, int]]


def read_session_trace(first: Line, rest: Iterator[Line], arrival: Arrival) -> Trace:
    """``tokens``, and ``turns`` = ``[[start, end], ...]``.

    Request i has the prompt ``tokens[:start]`` and the reply ``tokens[start:end]``. The format
    has no times: request n of the replay arrives at second n.
    """
    if arrival not in ARRIVALS:
        raise ValueError(f"arrival must be one of {', '.join(ARRIVALS)}, got {arrival!r}")
    sessions = [_parse(line) for line in itertools.chain([first], rest)]
    builder = TokenTraceBuilder()
    last_request: dict[int, int] = {}
    for index, turn in _order(sessions, arrival):
        session = sessions[index]
        start, end = session.turns[turn]
        reply = session.tokens[start:end]
        arrival_s = float(len(builder))
        if turn == 0:
            last_request[index] = builder.add(session.tokens[:start], reply, arrival_s)
            continue
        kept = session.turns[turn - 1][1]
        last_request[index] = builder.add_continuation(
            last_request[index], kept, session.tokens[kept:start], reply, arrival_s
        )
    return builder.build()


def _order(sessions: list[_Session], arrival: Arrival) -> Iterator[tuple[int, int]]:
    if arrival == "sequential":
        for index, session in enumerate(sessions):
            for turn in range(len(session.turns)):
                yield index, turn
        return
    for turn in range(max(len(session.turns) for session in sessions)):
        for index, session in enumerate(sessions):
            if turn < len(session.turns):
                yield index, turn


def _parse(line: Line) -> _Session:
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
    return _Session(tokens, [(start, end) for start, end in turns])
