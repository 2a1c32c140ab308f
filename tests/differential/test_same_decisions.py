"""The simulator in the budget ``sglang`` takes the decisions of the live cache, one by one.

Both serve the same random requests, overlapping in time, under eviction: SGLang's real tree and pools
without a server, and the native simulator. Compared after every step: hits, every node that is made, split
or removed, every state that is admitted or evicted, every victim in order, and the pools' free slots.
"""

from __future__ import annotations

import collections
import dataclasses
import random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sglang", reason="the live cache needs sglang")

from live_cache import COST, LiveCache
from random_prompts import Workload, tokens
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType

from sglang_marconi import _core
from sglang_marconi.config import MarconiConfig

EVENTS = ("node_added", "node_split", "node_removed", "state_admitted", "state_evicted", "touch")
VICTIMS = ("state_victim", "leaf_victim")

Event = tuple[str, list[int]]


class LoggedOrder:
    """The live cache's order of victims; logs what it is told, with nodes numbered as they are made."""

    def __init__(self, order: _core.UtilityOrder) -> None:
        self._order = order
        self._numbers: collections.defaultdict[int, int] = collections.defaultdict(int)  # the root is 0
        self._made = 0
        self._events: list[Event] = []

    def take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._order, name)
        if name not in EVENTS + VICTIMS:
            return method

        def logged(*args: int) -> Any:
            answer = method(*args)
            if name in VICTIMS:
                self._events.append((name, [] if answer is None else [self._numbers[answer]]))
            else:
                self._events.append((name, self._numbered(name, list(args))))
            return answer

        return logged

    def __contains__(self, node: int) -> bool:
        return node in self._order

    def _numbered(self, name: str, args: list[int]) -> list[int]:
        if name in ("node_added", "node_split"):
            self._made += 1
            self._numbers[args[0]] = self._made
            return [self._numbers[args[0]], self._numbers[args[1]], args[2]]
        return [self._numbers[args[0]]]


@dataclasses.dataclass(frozen=True)
class Action:
    """``serve`` starts a request, ``finish`` ends it, ``abort`` looks one up that never runs."""

    kind: str
    request: int


@dataclasses.dataclass(frozen=True)
class Scenario:
    """Requests as (prompt, reply) and what happens to them."""

    requests: list[tuple[list[int], list[int]]]
    actions: list[Action]

    @classmethod
    def random(cls, seed: int, actions: int, most_in_flight: int) -> Scenario:
        rng = random.Random(seed)
        workload = Workload(rng)
        scenario = cls([], [])
        running: list[int] = []
        for _ in range(actions):
            chance = rng.random()
            if running and (chance < 0.45 or len(running) == most_in_flight):
                request = running.pop(rng.randrange(len(running)))
                prompt, reply = scenario.requests[request]
                workload.histories.append(prompt + reply)
                scenario.actions.append(Action("finish", request))
                continue
            request = len(scenario.requests)
            scenario.requests.append((workload.prompt()[:500], tokens(rng, rng.randrange(1, 12))))
            scenario.actions.append(Action("serve" if chance < 0.92 else "abort", request))
            if chance < 0.92:
                running.append(request)
        return scenario

    def trace(self) -> _core.Trace:
        builder = _core.TokenTraceBuilder()
        for prompt, reply in self.requests:
            builder.add(np.array(prompt, dtype=np.uint32), np.array(reply, dtype=np.uint32))
        return builder.build()


class Simulated:
    """The simulator's cache, driven as ``LiveCache`` is."""

    def __init__(self, trace: _core.Trace, **options: Any) -> None:
        cost = _core.LayerwiseCost(**dataclasses.asdict(COST))
        self.cache = _core.PoolCache(
            trace, _core.ReplayOptions(capacity_bytes=0, cost=cost, budget="sglang", **options)
        )

    def do(self, action: Action) -> int | None:
        if action.kind == "finish":
            self.cache.finish(action.request)
            return None
        self.cache.arrive(action.request)
        if action.kind == "serve":
            self.cache.start(action.request)
        else:
            self.cache.abort(action.request)
        return self.cache.hit_tokens(action.request)


class Live:
    """The live cache, driven by the same actions."""

    def __init__(self, scenario: Scenario, cache: LiveCache) -> None:
        self.scenario, self.cache = scenario, cache
        self.running: dict[int, Any] = {}

    def do(self, action: Action) -> int | None:
        prompt, reply = self.scenario.requests[action.request]
        if action.kind == "finish":
            self.cache.finish(self.running.pop(action.request), reply)
            return None
        req = self.cache.arrive(prompt)
        hit = req.prefix_len
        if action.kind == "serve":
            self.cache.start(req)
            self.running[action.request] = req
        else:
            self.cache.abort_waiting(req)
        return hit

    def free(self) -> tuple[int, int]:
        return self.cache.allocator.available_size(), self.cache.pool.mamba_allocator.available_size()

    def nodes(self) -> list[tuple[int, bool]]:
        """Depth and whether it holds a state, of every node."""
        core = self.cache.tree.tree_core
        shape, pending = [], [(core.root_node, 0)]
        while pending:
            node, depth = pending.pop()
            for child in node.children.values():
                below = depth + len(child.key)
                shape.append((below, child.component_data[ComponentType.MAMBA].value is not None))
                pending.append((child, below))
        return sorted(shape)


CONFIGS = [
    MarconiConfig(),
    MarconiConfig(alpha=0.3),
    MarconiConfig(alpha=1.5, bytes="path"),
    MarconiConfig(alpha=0.1, recency="inverse_age", admit_prompt_end="always"),
    MarconiConfig(alpha=1e6, min_branch_gain=1),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"alpha{c.alpha:g}-{c.recency}-{c.bytes}")
@pytest.mark.parametrize("seed", range(40))
def test_simulator_takes_the_decisions_of_the_live_cache(config: MarconiConfig, seed: int) -> None:
    rng = random.Random(seed)
    kv_tokens, states = rng.choice([(1500, 9), (2500, 7), (1300, 30)])
    chunk_tokens = rng.choice([64, 150, 4096])
    scenario = Scenario.random(seed, actions=120, most_in_flight=2)
    live = Live(
        scenario, LiveCache(kv_tokens, states, (config, COST), chunk_tokens=chunk_tokens, wrap_order=LoggedOrder)
    )
    order = live.cache.tree.policy.order
    simulated = Simulated(
        scenario.trace(),
        policy="marconi",
        kv_tokens=kv_tokens,
        states=states,
        chunk_tokens=chunk_tokens,
        alpha=config.alpha,
        recency=config.recency,
        bytes=config.bytes,
        min_branch_gain_tokens=config.min_branch_gain,
        admits_prompt_end=config.admit_prompt_end == "always",
    )
    victims = 0
    for action in scenario.actions:
        assert simulated.do(action) == live.do(action), f"{seed=} {action}"
        events = simulated.cache.take_events()
        assert events == order.take_events(), f"{seed=} {action}"
        assert (simulated.cache.free_kv_tokens, simulated.cache.free_states) == live.free(), f"{seed=} {action}"
        victims += sum(name in VICTIMS for name, _ in events)
    assert simulated.cache.nodes() == live.nodes()
    assert victims > 0


@pytest.mark.parametrize("seed", range(60))
def test_simulator_takes_the_decisions_of_sglangs_own_cache(seed: int) -> None:
    rng = random.Random(seed)
    kv_tokens, states = rng.choice([(1500, 12), (2500, 10), (1300, 30)])
    chunk_tokens = rng.choice([64, 150, 4096])
    scenario = Scenario.random(seed, actions=120, most_in_flight=2)
    live = Live(scenario, LiveCache(kv_tokens, states, policy=None, tree_core="python", chunk_tokens=chunk_tokens))
    simulated = Simulated(
        scenario.trace(), policy="sglang-native", kv_tokens=kv_tokens, states=states, chunk_tokens=chunk_tokens
    )
    for action in scenario.actions:
        assert simulated.do(action) == live.do(action), f"{seed=} {action}"
        assert simulated.cache.nodes() == live.nodes(), f"{seed=} {action}"
        assert (simulated.cache.free_kv_tokens, simulated.cache.free_states) == live.free(), f"{seed=} {action}"
