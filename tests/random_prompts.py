"""Random requests that share prefixes: conversations that start together, go on, are edited, or repeat."""

from __future__ import annotations

import random


def tokens(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(2, 30_000) for _ in range(count)]


class Workload:
    """Conversations that start from shared prefixes, go on, are edited, or repeat."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.openings = [tokens(rng, rng.randrange(20, 120)) for _ in range(3)]
        self.histories: list[list[int]] = []

    def prompt(self) -> list[int]:
        rng = self.rng
        kind = rng.random()
        if self.histories and kind < 0.5:
            history = rng.choice(self.histories[-8:])
            if kind < 0.15:  # edited: leaves the history somewhere inside
                history = history[: rng.randrange(1, len(history) + 1)]
            return history + tokens(rng, rng.randrange(1, 40))
        if self.histories and kind < 0.6:
            return list(rng.choice(self.histories))
        return rng.choice(self.openings) + tokens(rng, rng.randrange(1, 60))
