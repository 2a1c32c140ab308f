"""What a router learns from the KV events is what the tree holds, whatever is evicted."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("sglang", reason="the live cache needs sglang")

from live_cache import LiveCache
from sglang.srt.disaggregation.kv_events import AllBlocksCleared, BlockRemoved, BlockStored
from sglang.srt.mem_cache.utils import compute_node_hash_values, hash_str_to_int64

from sglang_marconi.config import MarconiConfig
from sglang_marconi.cost import PAPER_7B


def tokens(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(2, 30_000) for _ in range(count)]


def follow(blocks: Counter[int], events: list[Any]) -> None:
    """Apply the events as a router does."""
    for event in events:
        if isinstance(event, AllBlocksCleared):
            blocks.clear()
        elif isinstance(event, BlockStored):
            assert event.parent_block_hash is None or blocks[event.parent_block_hash] == 1
            blocks.update(event.block_hashes)
        elif isinstance(event, BlockRemoved):
            blocks.subtract(event.block_hashes)


def blocks_of(tree_core: Any) -> Counter[int]:
    """The hash of every cached token, computed from the root down."""
    held: Counter[int] = Counter()
    pending = list(tree_core.root_node.children.values())
    while pending:
        node = pending.pop()
        node.hash_value = compute_node_hash_values(node, 1)
        held.update(map(hash_str_to_int64, node.hash_value))
        pending += node.children.values()
    return held


@pytest.mark.parametrize("seed", range(4))
def test_events_name_exactly_the_cached_blocks_under_pressure(seed: int) -> None:
    rng = random.Random(seed)
    cache = LiveCache(kv_tokens=900, state_slots=8, policy=(MarconiConfig(alpha=0.5), PAPER_7B), kv_events=True)
    openings = [tokens(rng, 60) for _ in range(3)]
    histories: list[list[int]] = []
    blocks: Counter[int] = Counter()
    for _ in range(120):
        start = rng.choice(histories[-6:]) if histories and rng.random() < 0.6 else rng.choice(openings)
        prompt = start[: rng.randrange(1, len(start) + 1)] + tokens(rng, rng.randrange(1, 40))
        prompt, reply = prompt[:300], tokens(rng, rng.randrange(1, 12))
        cache.serve(prompt, reply)
        histories.append(prompt + reply)
        follow(blocks, cache.tree.take_events())
        assert +blocks == blocks_of(cache.tree.tree_core)
    assert cache.tree.policy.stats.leaves_evicted > 20 and cache.tree.policy.stats.states_evicted > 20
