#!/usr/bin/env python3
"""Random load on the real server with a tiny memory, every answer checked, for as long as one likes.

After each round the pools must be whole and every answer must have the logprobs of an uncached prefill;
SGLang's own checks run on every idle step. Ends with an error at the first fault, which names the seed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "server"))

from conftest import STRATEGIES, STRICT, marconi
from machine import describe_machine
from rich.console import Console
from rich.progress import Progress
from soak import MEMORY, Soak, group_rss_mb

from sglang_marconi.platform.models import make_tiny_model
from sglang_marconi.platform.server import TinyServer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--strategy", choices=sorted(MEMORY), default="no_buffer")
    parser.add_argument("--family", default="falcon_h1")
    parser.add_argument("--page-size", type=int, default=1)
    parser.add_argument("--alpha", default="auto", help="a number, or auto (the default)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    print(f"seed {args.seed}", file=sys.stderr)
    config = {"alpha": args.alpha if args.alpha == "auto" else float(args.alpha), "retune_interval": 500}
    flags = {**STRATEGIES[args.strategy], **MEMORY[args.strategy], "page-size": args.page_size}
    flags |= {"radix-eviction-policy-config": config, "enable-metrics": True}
    memory_mb: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        model = make_tiny_model(args.family, Path(folder) / "model")
        with (
            TinyServer(model, backend="marconi", flags=flags, environment=STRICT) as server,
            Progress(console=Console(stderr=True)) as progress,
        ):
            soak = Soak(server, args.seed)
            start = time.monotonic()
            task = progress.add_task("soak", total=args.minutes * 60)
            while (elapsed := time.monotonic() - start) < args.minutes * 60:
                soak.round()
                memory_mb.append((round(elapsed), round(group_rss_mb(server.process_group or 0))))
                progress.update(task, completed=elapsed)
                if soak.counts.mismatches:
                    sys.exit(f"seed {args.seed}, round {soak.counts.rounds}: {soak.counts.mismatches}")
            shown = marconi(server)
    tenth = max(1, len(memory_mb) // 10)
    report = {
        "machine": describe_machine(),
        "strategy": args.strategy,
        "seed": args.seed,
        "counts": dataclasses.asdict(soak.counts),
        "memory_mb": memory_mb[::tenth],
        "stats": shown["stats"],
        "tuner": {key: (shown["tuner"] or {}).get(key) for key in ("form", "requests", "adoptions", "failures")},
    }
    if args.json:
        print(json.dumps(report, indent=2))
        return
    for name, value in report.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
