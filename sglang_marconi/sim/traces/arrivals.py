"""When the requests of sessions arrive that carry no times of their own."""

from __future__ import annotations

import dataclasses
import heapq
import random
from collections.abc import Iterator
from typing import Literal, Protocol, TypeVar

Order = Literal["round-robin", "sequential"]
ORDERS: tuple[Order, ...] = ("round-robin", "sequential")
Spacing = Literal["poisson", "uniform"]
SPACINGS: tuple[Spacing, ...] = ("poisson", "uniform")


class Session(Protocol):
    """What an order of arrival needs to know of a session."""

    @property
    def reply_lengths(self) -> list[int]:
        """Tokens of each turn's reply."""


SessionT = TypeVar("SessionT", bound=Session)


@dataclasses.dataclass(frozen=True)
class Arrivals:
    """How sessions mix.

    Without a rate, request n arrives at second n: ``round-robin`` takes every session's first request, then every
    second ...; ``sequential`` one session after the other. With a rate, sessions start at it, and a turn follows its
    predecessor after the reply's time and the think time.

    Args:
        order: without a rate.
        sessions_per_second: the rate, None for none.
        spacing: of the sessions' starts and the think times: ``poisson`` (exponential) or ``uniform`` (all equal).
        think_s: mean time from a reply to the next turn, seconds.
        reply_s_per_token: how long a reply takes.
        seed: of the random times.
    """

    order: Order = "round-robin"
    sessions_per_second: float | None = None
    spacing: Spacing = "poisson"
    think_s: float = 10.0
    reply_s_per_token: float = 0.02
    seed: int = 0

    def __post_init__(self) -> None:
        for key, allowed in (("order", ORDERS), ("spacing", SPACINGS)):
            if getattr(self, key) not in allowed:
                raise ValueError(f"{key} must be one of {', '.join(allowed)}, got {getattr(self, key)!r}")
        if self.sessions_per_second is not None and not self.sessions_per_second > 0:
            raise ValueError(f"sessions_per_second must be > 0, got {self.sessions_per_second!r}")
        for key in ("think_s", "reply_s_per_token"):
            if not getattr(self, key) >= 0:
                raise ValueError(f"{key} must be >= 0, got {getattr(self, key)!r}")

    def schedule(self, sessions: Iterator[SessionT]) -> Iterator[tuple[float, int, SessionT, int]]:
        """Each request as arrival in seconds, number of the session, session, number of the turn.

        With a rate, a session is read when it starts and dropped after its last turn.
        """
        if self.sessions_per_second is not None:
            return self._at_rate(sessions, self.sessions_per_second)
        turns: Iterator[tuple[int, SessionT, int]]
        if self.order == "sequential":
            turns = (
                (number, session, turn)
                for number, session in enumerate(sessions)
                for turn in range(len(session.reply_lengths))
            )
        else:
            turns = _round_robin(list(sessions))
        return ((float(second), *turn) for second, turn in enumerate(turns))

    def _at_rate(self, sessions: Iterator[SessionT], rate: float) -> Iterator[tuple[float, int, SessionT, int]]:
        rng = random.Random(self.seed)
        coming: list[tuple[float, int, int, SessionT]] = []
        start = 0.0
        for number, session in enumerate(sessions):
            if number:
                start += self._time(rng, 1 / rate)
            while coming and coming[0][0] <= start:
                yield self._next(coming, rng)
            if session.reply_lengths:
                heapq.heappush(coming, (start, number, 0, session))
        while coming:
            yield self._next(coming, rng)

    def _next(
        self, coming: list[tuple[float, int, int, SessionT]], rng: random.Random
    ) -> tuple[float, int, SessionT, int]:
        arrival, number, turn, session = heapq.heappop(coming)
        replies = session.reply_lengths
        if turn + 1 < len(replies):
            follows = arrival + replies[turn] * self.reply_s_per_token + self._time(rng, self.think_s)
            heapq.heappush(coming, (follows, number, turn + 1, session))
        return arrival, number, session, turn

    def _time(self, rng: random.Random, mean_s: float) -> float:
        return rng.expovariate(1 / mean_s) if self.spacing == "poisson" and mean_s else mean_s


def _round_robin(sessions: list[SessionT]) -> Iterator[tuple[int, SessionT, int]]:
    for turn in range(max((len(session.reply_lengths) for session in sessions), default=0)):
        for number, session in enumerate(sessions):
            if turn < len(session.reply_lengths):
                yield number, session, turn
