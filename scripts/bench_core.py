#!/usr/bin/env python3
"""Time the native simulator: replays, an alpha search, memory, and a radix tree look-up.

Usage: scripts/bench_core.py [TRACE ...] [--json]

TRACE is any trace file. Without one a synthetic token trace of chats is made, 2800 requests.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe_machine

from sglang_marconi import _core
from sglang_marconi.sim import ReplayRun, load_model, read_trace, run_search

ROOT = Path(__file__).resolve().parent.parent
CAPACITIES_GB = (5, 20, 40)
REPEATS = 3
RUNS = [
    ("sglang", "paper-artifact", 0.0),
    ("marconi", "paper-artifact", 1.0),
    ("vllm", "default", 0.0),
    ("sglang", "default", 0.0),
    ("sglang-native", "default", 0.0),
    ("marconi", "default", 0.0),
    ("marconi", "default", 1.0),
    ("belady", "default", 0.0),
]
ALPHAS = [tenth / 10 for tenth in range(21)]


def synthetic_trace(requests: int = 2800, seed: int = 7) -> _core.Trace:
    """Chats of 14 turns that share one of four system prompts, interleaved."""
    rng = np.random.default_rng(seed)
    order = random.Random(seed)

    def tokens(count: int) -> Any:
        return rng.integers(3, 32000, count, dtype=np.uint32)

    builder = _core.TokenTraceBuilder()
    systems = [tokens(700) for _ in range(4)]
    last: dict[int, tuple[int, int]] = {}
    turns = [session for session in range(requests // 14) for _ in range(14)]
    order.shuffle(turns)
    for session in turns:
        added, reply = tokens(500), tokens(260)
        if session not in last:
            prompt = np.concatenate([systems[session % 4], added])
            last[session] = (builder.add(prompt, reply), len(prompt) + len(reply))
            continue
        base, kept = last[session]
        last[session] = (
            builder.add_continuation(base, kept, added, reply),
            kept + len(added) + len(reply),
        )
    return builder.build()


def best_seconds(call: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def replay_record(trace: _core.Trace, policy: str, preset: Any, alpha: float, gb: int) -> dict[str, Any]:
    run = ReplayRun(policy, gb * 10**9, load_model("paper-7b"), alpha, preset)
    return {
        "policy": policy,
        "preset": preset,
        "alpha": alpha,
        "capacity_gb": gb,
        "ms": 1e3 * best_seconds(lambda: run_search(trace, [run], 1)),
        "token_hit_rate": run_search(trace, [run], 1)[0].token_hit_rate,
    }


def search_record(trace: _core.Trace, preset: Any, gb: int) -> dict[str, Any]:
    model = load_model("paper-7b")
    runs = [ReplayRun("marconi", gb * 10**9, model, alpha, preset) for alpha in ALPHAS]
    seconds = best_seconds(lambda: run_search(trace, runs))
    return {"preset": preset, "capacity_gb": gb, "alphas": len(ALPHAS), "s": seconds}


def trace_record(name: str, trace: _core.Trace, read_s: float) -> dict[str, Any]:
    return {
        "trace": name,
        "requests": len(trace),
        "prompt_tokens": trace.prompt_tokens,
        "read_s": read_s,
        "memory_bytes": trace.memory_bytes,
        "memory_over_token_bytes": trace.memory_bytes / max(1, 4 * trace.prompt_tokens),
        "replays": [replay_record(trace, *run, gb) for gb in CAPACITIES_GB for run in RUNS],
        "searches": [
            search_record(trace, preset, gb) for preset in ("default", "paper-artifact") for gb in CAPACITIES_GB
        ],
    }


def radix_tree_record() -> dict[str, Any]:
    """Compiled with g++ (or CXX): mean microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "bench")
        source = str(ROOT / "csrc" / "bench" / "radix_tree.cpp")
        compiler = os.environ.get("CXX", "g++")
        subprocess.run([compiler, "-std=c++17", "-O3", f"-I{ROOT / 'csrc'}", source, "-o", program], check=True)
        record: dict[str, Any] = json.loads(subprocess.run([program], capture_output=True, check=True).stdout)
        return record


def print_report(report: dict[str, Any]) -> None:
    print(report["machine"])
    for trace in report["traces"]:
        print(
            f"\n{trace['trace']}: {trace['requests']} requests, {trace['prompt_tokens']:,} prompt tokens, read in "
            f"{trace['read_s']:.2f} s, {trace['memory_bytes']:,} bytes "
            f"({trace['memory_over_token_bytes']:.4f} of the token data)"
        )
        print(f"{'policy':16}{'preset':16}{'alpha':>6}{'GB':>5}{'ms':>9}{'hit %':>8}")
        for run in trace["replays"]:
            print(
                f"{run['policy']:16}{run['preset']:16}{run['alpha']:6g}{run['capacity_gb']:5}{run['ms']:9.1f}"
                f"{100 * run['token_hit_rate']:8.2f}"
            )
        for search in trace["searches"]:
            print(
                f"search of {search['alphas']} alphas, {search['preset']}, {search['capacity_gb']} GB: "
                f"{search['s']:.2f} s"
            )
    tree = report["radix_tree"]
    print(
        f"\nlook-up of {tree['matched_tokens']} tokens over 50 nodes: {tree['lookup_us']:.1f} us; "
        f"insertion into {tree['nodes']:,} nodes: {tree['insert_us']:.2f} us"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="*", metavar="TRACE")
    parser.add_argument("--json", action="store_true", help="print the records instead of tables")
    arguments = parser.parse_args()
    records = []
    for name in arguments.traces or ["synthetic"]:
        start = time.perf_counter()
        trace = read_trace(name) if arguments.traces else synthetic_trace()
        records.append(trace_record(Path(name).name, trace, time.perf_counter() - start))
    report = {"machine": describe_machine(), "traces": records, "radix_tree": radix_tree_record()}
    if arguments.json:
        json.dump(report, sys.stdout, indent=2)
        print()
    else:
        print_report(report)


if __name__ == "__main__":
    main()
