"""Flags of the server that reach into the cache, on real pools."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("sglang", reason="the live cache needs sglang")

from live_cache import LiveCache

from sglang_marconi.cache.server_state import pool_totals
from sglang_marconi.config import MarconiConfig
from sglang_marconi.cost import PAPER_7B


def tokens(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(2, 30_000) for _ in range(count)]


def converse(cache: LiveCache, turns: int, thinking_tokens: int = 0) -> list[int]:
    """One conversation whose prompts repeat the replies without their thinking; returns each turn's hit."""
    rng = random.Random(7)
    history, hits = tokens(rng, 100), []
    for _ in range(turns):
        req = cache.arrive(history)
        hits.append(req.prefix_len)
        cache.start(req)
        req.reasoning_tokens = thinking_tokens
        reply = tokens(rng, thinking_tokens + 8)
        cache.finish(req, reply)
        history = history + reply[thinking_tokens:] + tokens(rng, 20)
    cache.check_whole()
    return hits


def test_stripped_thinking_resumes_at_the_last_prompts_end() -> None:
    config = MarconiConfig(admit_prompt_end="always")
    flags = {"strip_thinking_cache": True}
    cache = LiveCache(kv_tokens=2000, state_slots=20, policy=(config, PAPER_7B), server_flags=flags)
    assert converse(cache, turns=4, thinking_tokens=30) == [0, 100, 128, 156]


@pytest.mark.parametrize(("cap", "states"), [(-1, 6), (2, 2)])
def test_a_cap_on_states_per_path_takes_the_shallow_ones(cap: int, states: int) -> None:
    flags = {"mamba_max_states_per_path": cap}
    cache = LiveCache(kv_tokens=2000, state_slots=20, policy=(MarconiConfig(), PAPER_7B), server_flags=flags)
    hits = converse(cache, turns=6)
    assert hits == [0, 107, 135, 163, 191, 219]
    assert pool_totals(cache.tree)["states"]["cached"] == states
