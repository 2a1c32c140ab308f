"""Small random request streams with shared prefixes, for differential tests."""

from __future__ import annotations

import random

import numpy as np

from sglang_marconi._core import TokenTraceBuilder, Trace

Tokens = tuple[int, ...]
Requests = list[tuple[Tokens, Tokens]]


def random_requests(rng: random.Random, count: int, longest: int, vocabulary: int) -> Requests:
    """Prompts that continue, repeat, cut short or leave earlier sequences."""
    requests: Requests = []
    for _ in range(count):
        start: Tokens = ()
        if requests and rng.random() < 0.8:
            prompt, reply = rng.choice(requests)
            start = prompt + reply
            if rng.random() < 0.4:
                start = start[: rng.randrange(len(start) + 1)]
        new = tuple(rng.randrange(vocabulary) for _ in range(rng.randrange(5)))
        prompt = (start + new)[:longest]
        reply = tuple(rng.randrange(vocabulary) for _ in range(rng.randrange(4)))
        requests.append((prompt, reply))
    return requests


def tokens(values: Tokens) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return np.array(values, dtype=np.uint32)


def trace_of(requests: Requests) -> Trace:
    builder = TokenTraceBuilder()
    for prompt, reply in requests:
        builder.add(tokens(prompt), tokens(reply))
    return builder.build()
