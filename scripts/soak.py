#!/usr/bin/env python3
"""Sends random requests to the real server with a tiny memory and checks every answer.

Ten minutes of one mode: ``scripts/soak.py --mode no_buffer --minutes 10``. Ends with 1 at the first fault.
"""

from __future__ import annotations

import dataclasses
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "server"))

import click
from conftest import STRATEGIES, STRICT, marconi
from machine import describe_machine
from random_clients import SMALL_CHUNKS, TINY_MEMORY, Soak, memory_mib, soak
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sglang_marconi.platform.models import FAMILIES, make_tiny_model
from sglang_marconi.platform.server import TinyServer


@click.command()
@click.option("--mode", type=click.Choice(sorted(STRATEGIES)), default="no_buffer", show_default=True)
@click.option("--family", type=click.Choice(sorted(set(FAMILIES) - {"llama"})), default="falcon_h1", show_default=True)
@click.option("--page-size", type=int, default=1, show_default=True, help="more than 1 needs extra_buffer")
@click.option("--alpha", default="auto", show_default=True, help="a number, or auto")
@click.option("--minutes", type=float, default=10.0, show_default=True)
@click.option("--seed", type=int, default=None, help="drawn if absent, and printed")
@click.option("--log", type=click.Path(path_type=Path), default=None, help="where the server's output goes")
@click.option("--json", "as_json", is_flag=True, help="one JSON object on standard output")
def main(
    mode: str,
    family: str,
    page_size: int,
    alpha: str,
    minutes: float,
    seed: int | None,
    log: Path | None,
    as_json: bool,
) -> None:
    """Soak one server."""
    console = Console(stderr=True)
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    console.print(f"{describe_machine()}\n{mode}, {family}, page size {page_size}, alpha {alpha}, seed {seed}")
    config = {"alpha": alpha if alpha == "auto" else float(alpha)}
    flags: dict[str, object] = {**STRATEGIES[mode], **TINY_MEMORY[mode], **SMALL_CHUNKS, "page-size": page_size}
    flags["radix-eviction-policy-config"] = config
    with (
        tempfile.TemporaryDirectory() as folder,
        TinyServer(
            make_tiny_model(family, Path(folder)), backend="marconi", flags=flags, environment=STRICT, log_path=log
        ) as server,
        Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console) as progress,
    ):
        result = run(server, seed, minutes * 60, progress)
    result |= {"mode": mode, "family": family, "page_size": page_size, "alpha": alpha}
    if as_json:
        click.echo(json.dumps(result))
    else:
        for name, value in result.items():
            console.print(f"{name}: {value}", markup=False)
    sys.exit(1 if result["faults"] else 0)


def run(server: TinyServer, seed: int, seconds: float, progress: Progress) -> dict[str, Any]:
    """Soak for that long; returns counts, faults and memory after the first round and at the end."""
    task = progress.add_task("starting", total=seconds)
    start = time.monotonic()
    memory: list[float] = []

    def go_on(running: Soak) -> bool:
        elapsed = time.monotonic() - start
        memory.append(memory_mib(server))
        progress.update(task, completed=elapsed, description=f"{running.counts.requests} requests")
        return elapsed < seconds

    done = soak(server, seed, go_on)
    return {
        "seed": seed,
        "seconds": round(time.monotonic() - start),
        **dataclasses.asdict(done.counts),
        "faults": done.faults,
        "memory_mib_start": round(memory[0]),
        "memory_mib_first_quarter": round(memory[len(memory) // 4]),
        "memory_mib_end": round(memory[-1]),
        "stats": marconi(server)["stats"] if not done.faults else None,
    }


if __name__ == "__main__":
    main()
