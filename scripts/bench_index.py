#!/usr/bin/env python3
"""Time the utility index: one victim with its removal, an insertion, a touch; in C++ and through Python.

Usage: scripts/bench_index.py [--json] [--nodes 1000 10000 100000 1000000]

The C++ part is compiled with g++ (or CXX). Every case fills the index, then repeats: pop a victim, insert a
node, move a node; the index keeps its size. Shapes say how efficiency goes with time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
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


def compiler() -> str:
    return os.environ.get("CXX", "g++")


def machine() -> dict[str, Any]:
    """CPU, cores and versions that the numbers belong to."""
    cpu = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        cpu = names[0] if names else cpu
    version = subprocess.run([compiler(), "--version"], capture_output=True, text=True, check=True).stdout
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "load": [round(load, 1) for load in os.getloadavg()],
        "system": platform.platform(),
        "python": platform.python_version(),
        "compiler": version.splitlines()[0],
        "flags": [flag for flag in FLAGS if not flag.startswith("-I")],
    }


def native_cases(node_counts: list[int]) -> list[dict[str, Any]]:
    """One record a shape, form, alpha and node count: mean and percentiles in microseconds."""
    core = sorted(p for p in (ROOT / "csrc" / "marconi").glob("*.cpp"))
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "bench"
        source = ROOT / "csrc" / "bench" / "utility_index.cpp"
        subprocess.run([compiler(), *FLAGS, str(source), *map(str, core), "-o", str(program)], check=True)
        output = subprocess.run(
            [str(program), *map(str, node_counts)], capture_output=True, text=True, check=True
        ).stdout
    return [json.loads(line) for line in output.splitlines()]


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the records instead of tables")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 10_000, 100_000, 1_000_000])
    arguments = parser.parse_args()
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
