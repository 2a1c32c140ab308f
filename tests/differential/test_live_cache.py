"""The live cache on real pools under random requests: whole pools, and candidates as in the tree."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("sglang", reason="the live cache needs sglang")

from live_cache import LiveCache  # noqa: E402
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType  # noqa: E402

from sglang_marconi.config import MarconiConfig  # noqa: E402
from sglang_marconi.cost import PrefixCost  # noqa: E402

COST = PrefixCost(
    linear_flops_per_token=1e6, quadratic_flops_per_token_squared=1e3, kv_bytes_per_token=256, state_bytes=10_000
)


def tokens(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(2, 30_000) for _ in range(count)]


def expected_efficiency(tree: Any, node: Any, bytes_form: str) -> float:
    """FLOP efficiency from its definition, by walking the tree."""
    depth, walk = 0, node
    while walk.parent is not None:
        depth += len(walk.key)
        walk = walk.parent
    ancestor, resume = node.parent, depth - len(node.key)
    while ancestor.parent is not None and ancestor.component_data[ComponentType.MAMBA].value is None:
        resume -= len(ancestor.key)
        ancestor = ancestor.parent
    if node.component_data[ComponentType.MAMBA].value is None:
        return 0.0
    kv_tokens = depth if bytes_form == "path" else (0 if node.children else len(node.key))
    saved = COST.prefill_flops(depth) - COST.prefill_flops(resume)
    return saved / (COST.state_bytes + COST.kv_bytes_per_token * kv_tokens)


def check_candidates(cache: LiveCache, bytes_form: str) -> None:
    """Every node is in the right index, with the right efficiency and lock."""
    tree, candidates = cache.tree.tree_core, cache.tree.policy.candidates
    nodes = [node for node in tree._collect_all_nodes() if node is not tree.root_node]
    assert set(candidates._records) == {node.id for node in nodes}
    for node in nodes:
        state = node.component_data[ComponentType.MAMBA]
        shared = len(node.children) > 1
        held = state.value is not None
        assert (node.id in candidates._states) == (held and not shared)
        assert (node.id in candidates._shared_states) == (held and shared)
        assert (node.id in candidates._leaves) == (node in tree.evictable_device_leaves)
        for index in (candidates._states, candidates._shared_states, candidates._leaves):
            if node.id in index:
                assert index.efficiency(node.id) == pytest.approx(expected_efficiency(tree, node, bytes_form))
                assert index.last_access(node.id) == candidates._records[node.id].last_access
        if held:
            index = candidates._shared_states if shared else candidates._states
            assert index.is_locked(node.id) == (state.lock_ref > 0)


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


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "config",
    [
        MarconiConfig(),
        MarconiConfig(alpha=0.5),
        MarconiConfig(alpha=2.0, bytes="path"),
        MarconiConfig(alpha=0.1, recency="inverse_age", admit_prompt_end="always"),
    ],
    ids=lambda config: f"alpha{config.alpha}-{config.recency}-{config.bytes}",
)
def test_random_requests_leave_pools_whole(config: MarconiConfig, seed: int) -> None:
    rng = random.Random(seed)
    cache = LiveCache(kv_tokens=1500, state_slots=9, policy=(config, COST))
    workload = Workload(rng)
    running: list[tuple[Any, list[int]]] = []
    for _ in range(120):
        action = rng.random()
        if running and (action < 0.45 or len(running) == 2):
            req, reply = running.pop(rng.randrange(len(running)))
            cache.finish(req, reply)
            workload.histories.append(list(req.origin_input_ids) + reply)
        elif action < 0.9:
            prompt, reply = workload.prompt()[:500], tokens(rng, rng.randrange(1, 12))
            req = cache.arrive(prompt)
            cache.start(req)
            running.append((req, reply))
        else:
            cache.abort_waiting(cache.arrive(workload.prompt()[:500]))
        check_candidates(cache, config.bytes)
    for req, reply in running:
        cache.finish(req, reply)
    cache.check_whole()
    assert cache.tree.policy.stats.states_evicted > 0
    assert cache.tree.policy.stats.branch_states_admitted > 0
