#!/usr/bin/env python3
"""Time the utility index: one victim with its removal, an insertion, a touch; in C++ and through Python.

Usage: scripts/bench_index.py [--json] [--profile] [--nodes 1000 10000 100000 1000000]

The C++ part is compiled with g++ (or CXX). Every case fills the index, then repeats: pop a victim, insert a
node, move a node; the index keeps its size. Shapes say how efficiency goes with time.

--profile counts instead of timing: instructions and cache misses of one victim, under valgrind, uniform efficiencies.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["-std=c++17", "-O3", "-ffp-contract=off", f"-I{ROOT / 'csrc'}"]
PYTHON_STEPS = 20_000
PROFILED_ALPHAS = (0.0, 1.0, 1e6)
PROFILED_VICTIMS = 4000  # as in csrc/bench/one_victim.cpp
LAST_LEVEL_CACHE = "33554432,16,64"  # bytes, ways, bytes a line


def compiler() -> str:
    return os.environ.get("CXX", "g++")


def machine() -> dict[str, Any]:
    """CPU, cores and versions that the numbers belong to."""
    cpu = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        cpu = names[0] if names else cpu
    version = subprocess.run([*compiler().split(), "--version"], capture_output=True, text=True, check=True).stdout
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "load": [round(load, 1) for load in os.getloadavg()],
        "system": platform.platform(),
        "python": platform.python_version(),
        "compiler": version.splitlines()[0],
        "flags": [flag for flag in FLAGS if not flag.startswith("-I")],
    }


def compile_benchmark(source: str, program: Path, *flags: str) -> None:
    core = sorted(p for p in (ROOT / "csrc" / "marconi").glob("*.cpp"))
    sources = [str(path) for path in (ROOT / "csrc" / "bench" / source, *core)]
    subprocess.run([*compiler().split(), *FLAGS, *flags, *sources, "-o", str(program)], check=True)


def native_cases(node_counts: list[int]) -> list[dict[str, Any]]:
    """One record a shape, form, alpha and node count: mean and percentiles in microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "bench"
        compile_benchmark("utility_index.cpp", program)
        output = subprocess.run(
            [str(program), *map(str, node_counts)], capture_output=True, text=True, check=True
        ).stdout
    return [json.loads(line) for line in output.splitlines()]


def profile_cases(node_counts: list[int]) -> list[dict[str, Any]]:
    """One record an alpha and node count: what a victim takes, its removal included.

    Args:
        node_counts: candidates in the index.

    Raises:
        SystemExit: if valgrind is missing.
    """
    if shutil.which("valgrind") is None:
        sys.exit("--profile needs valgrind (apt-get install valgrind)")
    records = []
    with tempfile.TemporaryDirectory() as folder:
        program, counts = Path(folder) / "one_victim", Path(folder) / "counts"
        compile_benchmark("one_victim.cpp", program, "-g")
        for nodes, alpha in itertools.product(node_counts, PROFILED_ALPHAS):
            tool = [
                "valgrind",
                "-q",
                "--log-file=/dev/null",
                "--tool=callgrind",
                "--cache-sim=yes",
                f"--LL={LAST_LEVEL_CACHE}",
            ]
            tool += ["--toggle-collect=one_victim", f"--callgrind-out-file={counts}"]
            subprocess.run([*tool, str(program), str(nodes), str(alpha)], check=True)
            events, totals = (
                line.split()[1:] for line in counts.read_text().splitlines() if line.startswith(("events:", "totals:"))
            )
            total = dict(zip(events, map(int, totals), strict=False))  # zeros at the end are left out
            per_victim = {
                "instructions": total["Ir"],
                "l1_misses": total.get("D1mr", 0) + total.get("D1mw", 0),
                "last_level_misses": total.get("DLmr", 0) + total.get("DLmw", 0),
            }
            records.append({"nodes": nodes, "alpha": alpha} | {k: v / PROFILED_VICTIMS for k, v in per_victim.items()})
    return records


def mean_us(call: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times * 1e6


def python_case(nodes: int, alpha: float) -> dict[str, Any]:
    """Uniform efficiencies through the bindings; every victim is replaced at once."""
    from sglang_marconi._core import UtilityIndex

    rng = random.Random(nodes)
    index = UtilityIndex(alpha)
    clock = 0

    def insert() -> None:
        nonlocal clock
        index.insert(clock, clock, rng.random())
        clock += 1

    for _ in range(nodes):
        insert()
    insert_us = mean_us(insert, PYTHON_STEPS)
    pop_us = mean_us(index.pop_victim, PYTHON_STEPS)
    members = [node_id for node_id, _ in index.scores()]

    def touch() -> None:
        nonlocal clock
        index.touch(members[rng.randrange(nodes)], clock)
        clock += 1

    return {
        "nodes": nodes,
        "alpha": alpha,
        "pop_us": pop_us,
        "insert_us": insert_us,
        "touch_us": mean_us(touch, PYTHON_STEPS),
    }


def print_report(report: dict[str, Any]) -> None:
    for key, value in report["machine"].items():
        print(f"{key}: {value}")
    counts = sorted({case["nodes"] for case in report["native"]})
    rows: dict[tuple[str, str, float], dict[int, dict[str, Any]]] = {}
    for case in report["native"]:
        rows.setdefault((case["shape"], case["recency"], case["alpha"]), {})[case["nodes"]] = case
    heads = "".join(f"{f'{n:,}':>14}" for n in counts)
    print(f"\nC++, one victim with its removal, mean us (median), by node count\n{'':54}{heads}")
    for (shape, recency, alpha), cases in rows.items():
        times = [f"{cases[n]['pop_us']:.2f} ({cases[n]['pop_p50_us']:.2f})" for n in counts]
        cells = "".join(f"{cell:>14}" for cell in times)
        print(f"{shape:28}{recency:14}{f'alpha {alpha:g}':12}{cells}")
    largest = [case for case in report["native"] if case["nodes"] == counts[-1]]
    for key, what in [
        ("pop_p99_us", "victim, 99th percentile, us"),
        ("insert_us", "insert, us"),
        ("touch_us", "touch, us"),
        ("bytes_per_node", "bytes per node"),
    ]:
        worst = max(largest, key=lambda case: case[key])
        print(f"C++, worst case at {counts[-1]:,}: {what}: {worst[key]:.1f} ({worst['shape']})")
    print("\nthrough Python, uniform efficiencies, linear, mean us")
    print(f"{'nodes':>10}{'alpha':>10}{'victim':>10}{'insert':>10}{'touch':>10}")
    for case in report["python"]:
        cells = "".join(f"{case[key]:10.2f}" for key in ("pop_us", "insert_us", "touch_us"))
        print(f"{case['nodes']:>10,}{case['alpha']:>10g}{cells}")


def print_profile(records: list[dict[str, Any]]) -> None:
    print(f"{'alpha':>10}{'nodes':>12}{'instructions':>15}{'L1 misses':>12}{'last level':>12}")
    for record in records:
        values = f"{record['instructions']:15,.0f}{record['l1_misses']:12.1f}{record['last_level_misses']:12.1f}"
        print(f"{record['alpha']:10g}{record['nodes']:12,}{values}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the records instead of tables")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--profile", action="store_true", help="count instructions and cache misses of one victim")
    arguments = parser.parse_args()
    if arguments.profile:
        records = profile_cases(arguments.nodes)
        print(json.dumps(records, indent=2)) if arguments.json else print_profile(records)
        return
    report = {
        "machine": machine(),
        "native": native_cases(arguments.nodes),
        "python": [python_case(n, alpha) for n in arguments.nodes for alpha in (0.0, 1.0) if n >= 2],
    }
    if arguments.json:
        json.dump(report, sys.stdout, indent=2)
        print()
    else:
        print_report(report)


if __name__ == "__main__":
    main()
