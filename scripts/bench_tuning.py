#!/usr/bin/env python3
"""What tuning alpha while serving is worth: token hit rates of SGLang's two pools, simulated.

For each trace and cache size: SGLang's own cache, alpha 0, fixed alphas, the best static form in
hindsight, and alpha "auto" as the live cache does it, counted from the end of the first window on.
Usage: scripts/bench_tuning.py TRACE:GB[,GB...]...   (TRACE as sglang-marconi simulate reads it)
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from typing import Any

from machine import describe_machine

from sglang_marconi import _core
from sglang_marconi.sim.models import load_model, total_cost
from sglang_marconi.sim.pools import Pools, split_memory
from sglang_marconi.sim.replay import ReplayRun, run_search
from sglang_marconi.sim.traces import read_trace

Form = tuple[float, str, str]


def options(multiplier: float = 5.0, interval: int = 2000) -> _core.TuningOptions:
    return _core.TuningOptions(bootstrap_multiplier=multiplier, retune_interval_requests=interval)


TUNED = {
    "auto": options(),
    "auto, 15x": options(multiplier=15.0),
    "auto, once": options(interval=0),
    "auto, 500": options(interval=500),
}


def compare(trace: _core.Trace, gigabytes: float, ratio: float) -> dict[str, Any]:
    model = load_model("paper-7b")
    pools = Pools(*split_memory(round(gigabytes * 1e9), total_cost(model), ratio))
    forms = _core.tuning_forms()
    base = ReplayRun("marconi", pools.total_bytes(total_cost(model)), model, pools=pools)
    runs = [dataclasses.replace(base, policy="sglang-native")]
    runs += [dataclasses.replace(base, alpha=a, recency=r, bytes=b) for a, r, b in forms]  # type: ignore[arg-type]
    runs += [dataclasses.replace(base, alpha="auto", tuning=tuning) for tuning in TUNED.values()]
    start = time.perf_counter()
    results = [result.native for result in run_search(trace, runs)]
    tuned = results[1 + len(forms)]
    first = tuned.tuned_after if tuned.tuned_after >= 0 else 0

    def hit_percent(native: _core.ReplayResult) -> float:
        prompt = sum(
            int(column[first:].sum())
            for column in (
                native.hit_tokens,
                native.never_seen_tokens,
                native.not_admitted_tokens,
                native.evicted_tokens,
                native.in_flight_tokens,
            )
        )
        return 100 * int(native.hit_tokens[first:].sum()) / max(1, prompt)

    static = [hit_percent(native) for native in results[1 : 1 + len(forms)]]
    best = max(range(len(forms)), key=static.__getitem__)
    fixed = {f"alpha {a:g}": static[forms.index((a, "linear", "own"))] for a in (0.0, 0.1, 1.0)}
    return {
        "GB": gigabytes,
        "counted": len(tuned) - first,
        "sglang": hit_percent(results[0]),
        **fixed,
        "best": static[best],
        **{name: hit_percent(native) for name, native in zip(TUNED, results[1 + len(forms) :], strict=True)},
        "best form": forms[best],
        "windows": len(tuned.windows),
        "seconds": time.perf_counter() - start,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="+", metavar="TRACE:GB[,GB...]")
    parser.add_argument("--mamba-full-memory-ratio", type=float, default=0.9)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = []
    for argument in args.traces:
        path, _, sizes = argument.rpartition(":")
        trace = read_trace(path)
        name = path.rsplit("/", 1)[-1].removesuffix(".gz").removesuffix(".jsonl")
        rows += [
            {"trace": name, **compare(trace, float(size), args.mamba_full_memory_ratio)} for size in sizes.split(",")
        ]
    if args.json:
        print(json.dumps({"machine": describe_machine(), "rows": rows}, indent=2))
        return
    print(describe_machine())
    print("\n| " + " | ".join(rows[0]) + " |\n" + "|---" * len(rows[0]) + "|")
    for row in rows:
        print("| " + " | ".join(f"{v:.2f}" if isinstance(v, float) else str(v) for v in row.values()) + " |")


if __name__ == "__main__":
    main()
