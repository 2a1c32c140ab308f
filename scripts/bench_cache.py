#!/usr/bin/env python3
"""Cost of the cache per request, against SGLang's own cache on the same stream.

Drives the real trees on real pools without a model: a look-up, an insert and the evictions that
make room, for conversations of growing length. Prints the machine, the versions and a table.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import sys
import time
from array import array
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import torch
from live_cache import LiveCache
from machine import describe_machine
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.radix_cache import RadixKey

from sglang_marconi.config import MarconiConfig
from sglang_marconi.cost import PAPER_7B

BACKENDS: dict[str, dict[str, Any]] = {
    "sglang-rust": {"policy": None, "tree_core": "rust"},
    "sglang-python": {"policy": None, "tree_core": "python"},
    "marconi alpha 0": {"policy": (MarconiConfig(alpha=0), PAPER_7B)},
    "marconi alpha 0.5": {"policy": (MarconiConfig(alpha=0.5), PAPER_7B)},
}


def conversations(requests: int, seed: int) -> list[array[int]]:
    """Prompt + reply of each request: 64 sessions in random order, 150-450 new tokens a turn."""
    rng = random.Random(seed)
    system = [rng.randrange(30_000) for _ in range(300)]
    histories = [list(system) for _ in range(64)]
    keys = []
    for _ in range(requests):
        session = rng.randrange(64)
        histories[session] += [rng.randrange(30_000) for _ in range(rng.randrange(150, 450))]
        if len(histories[session]) > 3500:
            histories[session] = list(system)
        keys.append(array("q", histories[session] + [session]))
    return keys


def measure(backend: dict[str, Any], keys: list[array[int]], kv_tokens: int, states: int) -> dict[str, float]:
    cache = LiveCache(kv_tokens=kv_tokens, state_slots=states, **backend)
    tree, allocator, slots = cache.tree, cache.allocator, cache.pool.mamba_allocator
    spent: dict[str, list[float]] = {"match": [], "insert": [], "evict": []}
    for tokens in keys:
        key = RadixKey(tokens)
        start = time.perf_counter()
        matched = tree.match_prefix(MatchPrefixParams(key=key))
        spent["match"].append(time.perf_counter() - start)
        hit = matched.device_prefix_len
        lock = tree.lock(matched.last_device_node)
        start = time.perf_counter()
        if (short := len(tokens) - hit - allocator.available_size()) > 0:
            tree.evict_for_alloc(EvictParams(num_tokens=short))
        if slots.available_size() < 1:
            tree.evict_for_alloc(EvictParams(num_tokens=0, mamba_num=1))
        spent["evict"].append(time.perf_counter() - start)
        value = torch.cat([tree.path_device_indices(matched.last_device_node), allocator.alloc(len(tokens) - hit)])
        state = slots.alloc(1)
        start = time.perf_counter()
        allocator.free_group_begin()  # as the scheduler does around a batch's results
        result = tree.insert(InsertParams(key=key, value=value, mamba_value=state, prev_prefix_len=hit))
        allocator.free_group_end()
        spent["insert"].append(time.perf_counter() - start)
        if result.mamba_exist:
            slots.free(state)
        tree.unlock(lock)
    row = {}
    for name, times in spent.items():
        row[f"{name} p50"] = statistics.median(times) * 1e6
        row[f"{name} mean"] = statistics.mean(times) * 1e6
    row["all mean"] = sum(map(sum, spent.values())) / len(keys) * 1e6
    return row


def eviction_call(backend: dict[str, Any], leaves: int, calls: int = 200) -> float:
    """Median microseconds of a call that evicts one KV leaf of so many."""
    rng = random.Random(leaves)
    cache = LiveCache(kv_tokens=2 * leaves + 2, state_slots=leaves + 1, **backend)
    for leaf in range(leaves):
        key = RadixKey(array("q", [leaf, rng.randrange(30_000)]))
        state = cache.pool.mamba_allocator.alloc(1)
        cache.tree.insert(InsertParams(key=key, value=cache.allocator.alloc(2), mamba_value=state))
    gc.collect()
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        evicted = cache.tree.evict(EvictParams(num_tokens=1)).num_tokens_evicted
        times.append(time.perf_counter() - start)
        assert evicted == 2
    return statistics.median(times) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1500)
    parser.add_argument("--kv-tokens", type=int, default=60_000)
    parser.add_argument("--states", type=int, default=120)
    parser.add_argument("--repeats", type=int, default=3, help="runs per backend, interleaved; the best counts")
    parser.add_argument("--leaves", type=int, nargs="*", default=[1000, 10_000, 40_000])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    keys = conversations(args.requests, seed=1)
    best: dict[str, dict[str, float]] = {}
    for _ in range(args.repeats):
        for name, backend in BACKENDS.items():
            gc.collect()
            row = measure(backend, keys, args.kv_tokens, args.states)
            if name not in best or row["all mean"] < best[name]["all mean"]:
                best[name] = row
    evictions = {
        name: {f"{leaves} leaves": eviction_call(backend, leaves) for leaves in args.leaves}
        for name, backend in BACKENDS.items()
    }
    if args.json:
        rows = {name: {**best[name], "eviction call": evictions[name]} for name in BACKENDS}
        print(json.dumps({"machine": describe_machine(), "microseconds": rows}, indent=2))
        return
    print(describe_machine())
    print_table("us per request", best)
    print_table("us per call that evicts one KV leaf", evictions)


def print_table(title: str, rows: dict[str, dict[str, float]]) -> None:
    print(f"\n{title:36}" + "".join(f"{column:>14}" for column in next(iter(rows.values()))))
    for name, row in rows.items():
        print(f"{name:36}" + "".join(f"{value:14.0f}" for value in row.values()))


if __name__ == "__main__":
    main()
