"""The live cache on real pools under random requests: whole pools, and the order of victims knows the tree."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("sglang", reason="the live cache needs sglang")

from live_cache import COST, LiveCache
from random_prompts import Workload, tokens
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType

from sglang_marconi.config import MarconiConfig
from sglang_marconi.cost import PrefixCost


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


def check_order(cache: LiveCache, bytes_form: str) -> None:
    """Every node is in the right index, with the right efficiency and lock."""
    tree, order = cache.tree.tree_core, cache.tree.policy.order
    states, shared_states, leaves = (order.index(name) for name in ("states", "shared_states", "leaves"))
    nodes = [node for node in tree._collect_all_nodes() if node is not tree.root_node]
    assert len(order) == len(nodes)
    for node in nodes:
        state = node.component_data[ComponentType.MAMBA]
        shared = len(node.children) > 1
        held = state.value is not None
        assert order.is_state_locked(node.id) == (state.lock_ref > 0)
        assert (node.id in states) == (held and not shared)
        assert (node.id in shared_states) == (held and shared)
        assert (node.id in leaves) == (node in tree.evictable_device_leaves)
        for index in (states, shared_states, leaves):
            if node.id in index:
                assert index.efficiency(node.id) == pytest.approx(expected_efficiency(tree, node, bytes_form))
                assert index.last_access(node.id) == order.last_access(node.id)
        if held:
            assert (shared_states if shared else states).is_locked(node.id) == (state.lock_ref > 0)


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
        check_order(cache, config.bytes)
    for req, reply in running:
        cache.finish(req, reply)
    cache.check_whole()
    assert cache.tree.policy.stats.states_evicted > 0
    assert cache.tree.policy.stats.branch_states_admitted > 0


def test_third_request_hits_the_exact_branch_point() -> None:
    rng = random.Random(1)
    shared = tokens(rng, 75)
    prompts = [shared + tokens(rng, 40) for _ in range(4)]
    own = LiveCache(kv_tokens=2000, state_slots=20, policy=None)
    ours = LiveCache(kv_tokens=2000, state_slots=20, policy=(MarconiConfig(), COST))
    assert [own.serve(prompt, tokens(rng, 5)) for prompt in prompts] == [0, 0, 0, 0]
    assert [ours.serve(prompt, tokens(rng, 5)) for prompt in prompts] == [0, 0, 75, 75]
    ours.check_whole()


def test_finished_request_leaves_two_states_at_most() -> None:
    rng = random.Random(2)
    cache = LiveCache(kv_tokens=2000, state_slots=20, policy=(MarconiConfig(), COST))
    shared = tokens(rng, 75)
    cache.serve(shared + tokens(rng, 40), tokens(rng, 5))
    assert cache.tree.policy.order.states == 1
    cache.serve(shared + tokens(rng, 40), tokens(rng, 5))
    assert cache.tree.policy.order.states == 3


def test_full_pool_with_every_state_locked_serves_uncached() -> None:
    rng = random.Random(3)
    cache = LiveCache(kv_tokens=2000, state_slots=4, policy=(MarconiConfig(), COST))
    histories = [tokens(rng, 50) for _ in range(2)]
    replies = [tokens(rng, 5) for _ in range(2)]
    for history, reply in zip(histories, replies, strict=True):
        cache.serve(history, reply)
    turns = [h + r + tokens(rng, 10) for h, r in zip(histories, replies, strict=True)]
    running = [cache.arrive(turn) for turn in turns]
    for req in running:
        assert req.prefix_len == 54
        # Matched states stay locked until the prefill ends: hold both requests there.
        req.lock = cache.tree.lock(req.last_node)
    waiting = cache.arrive(turns[0])
    assert waiting.prefix_len == 0
    assert not waiting.kv.holds_mamba
    assert cache.tree.policy.stats.hit_skipped_pool_full == 1
    for req in running:
        cache.tree.unlock(req.lock)
        cache.start(req)
        cache.finish(req, tokens(rng, 3))
    cache.start(waiting)
    cache.finish(waiting, tokens(rng, 3))
    cache.check_whole()


def test_branch_state_is_skipped_when_every_slot_is_in_use() -> None:
    rng = random.Random(4)
    cache = LiveCache(kv_tokens=2000, state_slots=2, policy=(MarconiConfig(), COST))
    shared = tokens(rng, 60)
    first = cache.arrive(shared + tokens(rng, 20))
    cache.start(first)
    second = cache.arrive(shared + tokens(rng, 20))
    assert second.mamba_branching_seqlen == 60
    cache.start(second)
    assert cache.tree.policy.stats.state_skipped_pool_full == 1
    for req in (first, second):
        cache.finish(req, tokens(rng, 4))
    cache.check_whole()


def test_aborted_waiting_request_returns_its_state_slot() -> None:
    rng = random.Random(5)
    cache = LiveCache(kv_tokens=2000, state_slots=6, policy=(MarconiConfig(), COST))
    prompt, reply = tokens(rng, 50), tokens(rng, 5)
    cache.serve(prompt, reply)
    waiting = cache.arrive(prompt + reply + tokens(rng, 5))
    assert waiting.kv.holds_mamba
    cache.abort_waiting(waiting)
    cache.check_whole()


def test_multi_turn_sessions_hit_well_above_sglangs_own_cache() -> None:
    """Twelve sessions in random order with slots for some of their states (cases 5)."""

    def hit_rate(policy: tuple[MarconiConfig, PrefixCost] | None) -> float:
        rng = random.Random(6)
        cache = LiveCache(kv_tokens=20_000, state_slots=20, policy=policy)
        system = tokens(rng, 80)
        histories = [system + tokens(rng, 40) for _ in range(12)]
        turns = [session for session in range(12) for _ in range(8)]
        rng.shuffle(turns)
        hits = total = 0
        for session in turns:
            reply = tokens(rng, 10)
            total += len(histories[session])
            hits += cache.serve(histories[session], reply)
            histories[session] = histories[session] + reply + tokens(rng, 20)
        cache.check_whole()
        return hits / total

    own, ours = hit_rate(None), hit_rate((MarconiConfig(), COST))
    assert ours > own + 0.1, f"{ours=:.3f} {own=:.3f}"
