"""The tuner on a live cache without a server: windows replay what happened, and serving gets better."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

pytest.importorskip("sglang", reason="the live cache needs sglang")

from live_cache import COST, LiveCache
from random_prompts import Workload, tokens

from sglang_marconi import _core
from sglang_marconi.cache.radix_cache import make_tuner
from sglang_marconi.config import MarconiConfig
from sglang_marconi.tuning.tuner import LiveTuner


def tuned_cache(kv_tokens: int, states: int, chunk_tokens: int = 4096, **config: Any) -> LiveCache:
    settings = MarconiConfig(alpha="auto", **config)
    cache = LiveCache(kv_tokens, states, (settings, COST), chunk_tokens=chunk_tokens)
    cache.tree.tuner = make_tuner(cache.tree, cache.tree.policy, chunk_tokens, grid=1)
    return cache


def wait_for_search(tuner: LiveTuner) -> None:
    deadline = time.monotonic() + 60
    while not tuner._search.is_done:  # type: ignore[union-attr]
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Conversations:
    """Workload whose requests go on from the replies that they got."""

    def __init__(self, cache: LiveCache, seed: int) -> None:
        self.cache = cache
        self.rng = random.Random(seed)
        self.workload = Workload(self.rng)
        self.running: list[tuple[Any, list[int]]] = []

    def start(self) -> tuple[int, int]:
        """Hit and prompt tokens of a request that stays in flight."""
        req = self.cache.arrive(self.workload.prompt()[:500])
        hit = req.prefix_len
        self.cache.start(req)
        self.running.append((req, tokens(self.rng, self.rng.randrange(1, 12))))
        return hit, len(req.origin_input_ids)

    def finish(self) -> None:
        req, reply = self.running.pop(self.rng.randrange(len(self.running)))
        self.cache.finish(req, reply)
        self.workload.histories.append(list(req.origin_input_ids) + reply)

    def serve(self) -> tuple[int, int]:
        served = self.start()
        self.finish()
        return served


@pytest.mark.parametrize("seed", range(12))
def test_replaying_a_window_gives_the_hits_that_were_served(seed: int) -> None:
    """The window starts from the live cache's state and has the live pools, locks and order of events."""
    rng = random.Random(seed)
    prompt_end = rng.choice(["never", "always"])
    cache = tuned_cache(1500, rng.choice([7, 9, 30]), rng.choice([64, 150, 4096]), admit_prompt_end=prompt_end)
    tuner = cache.tree.tuner
    conversations = Conversations(cache, seed)
    while tuner.phase == "waiting":
        conversations.serve()
    # The request that opened the window has left: nothing was in flight that the window does not know.
    hits = 0
    while tuner.phase == "collecting":
        if conversations.running and (rng.random() < 0.5 or len(conversations.running) == 2):
            conversations.finish()
        else:
            hits += conversations.start()[0]
    assert tuner.phase == "searching"
    wait_for_search(tuner)
    while conversations.running:
        conversations.finish()
    conversations.serve()
    form, replayed_hits, _ = tuner.last_search.scores[0]
    assert form[0] == 0
    assert replayed_hits == hits, f"{seed=}"
    cache.check_whole()


def long_and_short(rng: random.Random, cache: LiveCache, requests: int) -> float:
    """Two kinds of conversations: few long ones that come back late, many short ones that never do."""
    long_histories = [tokens(rng, 300) for _ in range(8)]
    hits = total = 0
    for number in range(requests):
        if number % 6 == 0:
            chosen = number // 6 % len(long_histories)
            prompt, reply = long_histories[chosen][:900], tokens(rng, 8)
            long_histories[chosen] = prompt + reply + tokens(rng, 10)
        else:
            prompt, reply = tokens(rng, 40), tokens(rng, 4)
        hits += cache.serve(prompt, reply)
        total += len(prompt)
        if cache.tree.tuner is not None and cache.tree.tuner.phase == "searching":
            wait_for_search(cache.tree.tuner)
    return hits / total


def test_tuned_cache_hits_what_lru_loses() -> None:
    lru = LiveCache(20_000, 14, (MarconiConfig(), COST))
    tuned = tuned_cache(20_000, 14)
    rates = [long_and_short(random.Random(1), cache, 900) for cache in (lru, tuned)]
    assert tuned.tree.tuner.describe()["form"]["alpha"] > 0
    assert rates[1] > rates[0] + 0.2, rates
    tuned.check_whole()


def test_tuner_follows_a_shift_within_one_interval() -> None:
    cache = tuned_cache(20_000, 14, retune_interval=200)
    tuner = cache.tree.tuner
    long_and_short(random.Random(1), cache, 400)
    assert tuner.describe()["form"]["alpha"] > 0
    # Now short conversations come back at once and long prompts never do.
    rng = random.Random(2)
    last = [tokens(rng, 40) for _ in range(4)]
    shifted_at, adoptions = tuner.describe()["requests"], tuner.adoptions
    while tuner.adoptions == adoptions:
        number = tuner.describe()["requests"]
        assert number <= shifted_at + 200, tuner.describe()
        if number % 2:
            cache.serve(tokens(rng, 400), tokens(rng, 4))
        else:
            chosen = number // 2 % len(last)
            last[chosen] = (last[chosen] + tokens(rng, 4))[:80]
            cache.serve(last[chosen], tokens(rng, 4))
        if tuner.phase == "searching":
            wait_for_search(tuner)
    assert tuner.describe()["form"]["alpha"] == 0


def test_nothing_is_recorded_before_the_first_eviction() -> None:
    cache = tuned_cache(20_000, 60)
    conversations = Conversations(cache, 3)
    for _ in range(20):
        conversations.serve()
    shown = cache.tree.tuner.describe()
    assert (shown["phase"], shown["requests"], shown["requests_before_first_eviction"]) == ("waiting", 20, 0)
    assert shown["recorder_bytes"] < 1000


def test_flush_stops_a_search_and_starts_again() -> None:
    cache = tuned_cache(1500, 9)
    conversations = Conversations(cache, 4)
    while cache.tree.tuner.phase != "searching":
        conversations.serve()
    cache.tree.reset()
    assert cache.tree.tuner.phase == "waiting"
    cache.allocator.clear()
    cache.pool.clear()
    for _ in range(5):
        conversations.serve()
    cache.check_whole()


def test_failed_search_leaves_serving_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    cache = tuned_cache(1500, 9)
    conversations = Conversations(cache, 5)
    tuner = cache.tree.tuner
    while tuner.phase != "searching":
        conversations.serve()
    wait_for_search(tuner)

    class Failing:
        is_done = True

        def scores(self) -> None:
            raise MemoryError("no memory for the replay")

        def cancel(self) -> None:
            pass

    tuner._search = Failing()
    conversations.serve()
    assert (tuner.failures, tuner.describe()["form"]["alpha"]) == (1, 0)
    assert "search for alpha failed" in caplog.text
    cache.check_whole()


def test_full_recorder_closes_its_window_early() -> None:
    cache = tuned_cache(1500, 9, tuner_memory_mb=1, bootstrap_multiplier=50.0)
    conversations = Conversations(cache, 6)
    tuner = cache.tree.tuner
    while tuner.phase == "waiting":
        conversations.serve()
    window = tuner.describe()["window_requests"]
    while tuner.phase == "collecting":
        cache.serve(tokens(conversations.rng, 1000), [1, 2])
        assert tuner.describe()["recorder_bytes"] < 4 * 2**20
    assert tuner.describe()["requests"] < window


def test_same_window_gives_the_same_form_whatever_the_threads() -> None:
    found = []
    for threads in (1, 3):
        cache = tuned_cache(20_000, 14, tuner_threads=threads)
        long_and_short(random.Random(7), cache, 600)
        found.append((cache.tree.tuner.describe()["form"], cache.tree.tuner.last_search.scores))
    assert found[0] == found[1]


def test_form_is_kept_unless_another_wins_by_the_margin() -> None:
    objective = _core.Objective(min_gain=0.01)

    def scored(*hits: tuple[float, float]) -> list[tuple[float, float, float, float]]:
        return [(hit, 0.0, late, 0.0) for hit, late in hits]

    scores = scored((100, 50), (100.5, 51), (103, 51), (103, 51))
    assert _core.choose_form(scores, 0, objective) == 2  # the first of equals
    assert _core.choose_form(scores, 2, objective) == 2
    assert _core.choose_form(scores[:2], 0, objective) == 0
    # Alpha 0 would have been better than the present form: never worse than it.
    assert _core.choose_form(scored((100, 50), (99.9, 50)), 1, objective) == 0
    # What wins by the state that the cache was in has won nothing in the later half.
    assert _core.choose_form(scored((100, 50), (110, 50)), 0, objective) == 0
