"""Exceptions in the policy cost a state or an order of victims, never a request or a slot."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("sglang", reason="the live cache needs sglang")

from live_cache import COST, LiveCache
from random_prompts import Workload, tokens
from test_live_cache import check_order

from sglang_marconi.compat import ComponentType
from sglang_marconi.config import MarconiConfig

REPORTS = ("node_added", "node_split", "node_removed", "state_admitted", "state_evicted", "set_state_locked")
REPORTS += ("leaf_added", "leaf_removed", "touch")
CHOICES = ("state_victim", "leaf_victim")


class Failing:
    """Does what another object does, but some of its methods raise at random calls.

    Args:
        whole: the object.
        methods: that may raise.
        rng: when they do.
        probability: of each call.
    """

    def __init__(self, whole: Any, methods: tuple[str, ...], rng: random.Random, probability: float) -> None:
        self._whole, self._methods, self._rng, self._probability = whole, methods, rng, probability
        self.raised = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._whole, name)
        return self._sometimes(found) if name in self._methods else found

    def __contains__(self, node: int) -> bool:
        return node in self._whole

    def __len__(self) -> int:
        return len(self._whole)

    def _sometimes(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if self._rng.random() < self._probability:
                self.raised += 1
                raise RuntimeError("injected")
            return method(*args)

        return call

    def heal(self) -> None:
        self._probability = 0.0


def drive(cache: LiveCache, rng: random.Random, requests: int = 120) -> None:
    workload = Workload(rng)
    for _ in range(requests):
        prompt, reply = workload.prompt()[:400], tokens(rng, rng.randrange(1, 12))
        cache.serve(prompt, reply)
        workload.histories.append(prompt + reply)
        cache.tree.sanity_check()
    cache.check_whole()


@pytest.mark.parametrize("probability", [0.2, 1.0])
@pytest.mark.parametrize("method", [*REPORTS, *CHOICES])
def test_a_failing_order_of_victims_costs_no_request_and_no_slot(method: str, probability: float) -> None:
    rng = random.Random(7)
    failing: list[Failing] = []

    def wrap(order: Any) -> Any:
        failing.append(Failing(order, (method,), rng, probability))
        return failing[0]

    cache = LiveCache(kv_tokens=900, state_slots=7, policy=(MarconiConfig(alpha=0.5), COST), wrap_order=wrap)
    drive(cache, rng)
    assert failing[0].raised > 0
    stats = cache.tree.policy.stats
    assert stats.policy_failures == failing[0].raised
    assert stats.states_evicted > 0 and stats.leaves_evicted > 0

    failing[0].heal()
    cache.tree.tree_core.order.state_victim()  # builds the order anew if it missed an event
    check_order(cache, "own")
    cache.check_whole()


@pytest.mark.parametrize("method", ["branch_point", "wants_state"])
def test_a_failing_admission_keeps_no_state_and_serves(method: str) -> None:
    rng = random.Random(8)
    cache = LiveCache(kv_tokens=900, state_slots=7, policy=(MarconiConfig(), COST))
    component = cache.tree.components[ComponentType.MAMBA]
    component.admission = Failing(component.admission, (method,), rng, 1.0)
    drive(cache, rng)
    stats = cache.tree.policy.stats
    assert stats.policy_failures == component.admission.raised > 0
    assert stats.branch_states_admitted == 0
    assert stats.last_token_states_admitted > 0


def test_each_kind_of_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(9)
    cache = LiveCache(
        kv_tokens=900,
        state_slots=7,
        policy=(MarconiConfig(), COST),
        wrap_order=lambda order: Failing(order, ("state_victim",), rng, 1.0),
    )
    with caplog.at_level(logging.ERROR, logger="sglang_marconi"):
        drive(cache, rng, 40)
    assert cache.tree.policy.stats.policy_failures > 1
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["marconi: choosing a state to evict failed; serving goes on, later failures are counted only"]
