#!/usr/bin/env python3
"""Compares SGLang's own cache with marconi on the real server: same conversations, same memory."""

from __future__ import annotations

import dataclasses
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import click
from machine import describe_machine
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from sglang_marconi.platform.conversations import (
    Served,
    Session,
    read_metrics,
    replay,
    sample_sessions,
    scale,
)
from sglang_marconi.platform.models import make_tiny_model
from sglang_marconi.platform.server import TinyServer

STRATEGY_FLAGS: dict[str, dict[str, object]] = {
    "no_buffer": {"mamba-radix-cache-strategy": "no_buffer", "disable-overlap-schedule": True},
    "extra_buffer": {"mamba-radix-cache-strategy": "extra_buffer"},
}


@dataclasses.dataclass
class Run:
    """What one server did with the conversations."""

    name: str
    requests: int
    prompt_tokens: int
    cached_tokens: int
    lost_tokens_per_turn: float
    ttft_ms: list[float]
    hit_tokens: list[int]
    states_kept: int
    kv_tokens_evicted: int

    @property
    def hit_rate(self) -> float:
        return self.cached_tokens / self.prompt_tokens

    def ttft_percentile(self, percent: int) -> float:
        return statistics.quantiles(self.ttft_ms, n=100)[percent - 1]


def run_server(
    name: str,
    model: Path,
    flags: dict[str, object],
    backend: str | None,
    sessions: list[Session],
    active: int,
    progress: Progress,
) -> Run:
    total = sum(len(session.turns) for session in sessions)
    task = progress.add_task(f"{name}: starting the server", total=total)
    with TinyServer(model, flags={**flags, "enable-metrics": True}, backend=backend) as server:
        progress.update(task, description=name)
        served = replay(server.url, sessions, active, on_request=lambda _: progress.advance(task))
        metrics = read_metrics(server.url)
    return summarise(name, served, metrics)


def summarise(name: str, served: list[Served], metrics: dict[str, float]) -> Run:
    follow_ups = [request.lost_tokens for request in served if request.repeated_tokens]
    return Run(
        name=name,
        requests=len(served),
        prompt_tokens=sum(request.prompt_tokens for request in served),
        cached_tokens=sum(request.cached_tokens for request in served),
        lost_tokens_per_turn=statistics.fmean(follow_ups) if follow_ups else 0.0,
        ttft_ms=[request.ttft_s * 1e3 for request in served],
        hit_tokens=[request.cached_tokens for request in served],
        states_kept=round(metrics.get("sglang:mamba_evictable_tokens", 0)),
        kv_tokens_evicted=round(metrics.get("sglang:evicted_tokens_total", 0)),
    )


def table_rows(runs: list[Run]) -> list[tuple[str, list[str]]]:
    return [
        ("requests", [f"{run.requests}" for run in runs]),
        ("prompt tokens", [f"{run.prompt_tokens:,}" for run in runs]),
        ("cached tokens", [f"{run.cached_tokens:,}" for run in runs]),
        ("hit rate", [f"{run.hit_rate:.1%}" for run in runs]),
        ("prefill tokens computed", [f"{run.prompt_tokens - run.cached_tokens:,}" for run in runs]),
        ("of the last turn, per turn", [f"{run.lost_tokens_per_turn:.1f}" for run in runs]),
        ("TTFT P50", [f"{run.ttft_percentile(50):.0f} ms" for run in runs]),
        ("TTFT P95", [f"{run.ttft_percentile(95):.0f} ms" for run in runs]),
        ("states kept at the end", [f"{run.states_kept}" for run in runs]),
        ("KV tokens evicted", [f"{run.kv_tokens_evicted:,}" for run in runs]),
    ]


def draw(runs: list[Run], path: Path) -> None:
    """Cached tokens as the requests come in, and how long the first tokens took."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    figure, (hits, latency) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for run in runs:
        hits.plot(np.cumsum(run.hit_tokens), label=f"{run.name} ({run.hit_rate:.1%} of prompt tokens)")
        latency.plot(np.sort(run.ttft_ms), np.linspace(0, 1, run.requests), label=run.name)
    hits.set(xlabel="requests", ylabel="cached prompt tokens, total", title="Prefix cache hits")
    latency.set(xlabel="time to the first token, ms", ylabel="share of requests", title="TTFT")
    for axes in (hits, latency):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=130)


@click.command(help=__doc__)
@click.option("--family", default="falcon_h1", show_default=True, help="Tiny model: falcon_h1, qwen3_next, ...")
@click.option("--strategy", type=click.Choice(list(STRATEGY_FLAGS)), default="no_buffer", show_default=True)
@click.option("--sessions", default=16, show_default=True, help="Conversations to replay (24 ship with the package).")
@click.option("--active", default=6, show_default=True, help="Conversations open at a time.")
@click.option("--stride", default=4, show_default=True, help="Keep one token of the trace in so many.")
@click.option("--states", default=12, show_default=True, help="State slots (--max-mamba-cache-size).")
@click.option("--kv-tokens", default=8192, show_default=True, help="KV slots (--max-total-tokens).")
@click.option("--alpha", default=0.0, show_default=True, help="Weight of FLOP efficiency in eviction.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("demo-output"), show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
def main(
    family: str,
    strategy: str,
    sessions: int,
    active: int,
    stride: int,
    states: int,
    kv_tokens: int,
    alpha: float,
    output: Path,
    as_json: bool,
) -> None:
    conversations = scale(sample_sessions()[:sessions], stride)
    flags = {
        **STRATEGY_FLAGS[strategy],
        "max-total-tokens": kv_tokens,
        "max-mamba-cache-size": states,
    }
    marconi_flags = {**flags, "radix-eviction-policy-config": {"alpha": alpha}}
    console = Console(stderr=as_json)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with tempfile.TemporaryDirectory() as folder, Progress(*columns, console=console) as progress:
        model = make_tiny_model(family, Path(folder) / family)
        runs = [
            run_server("SGLang's own cache", model, flags, None, conversations, active, progress),
            run_server("marconi", model, marconi_flags, "marconi", conversations, active, progress),
        ]
    output.mkdir(parents=True, exist_ok=True)
    draw(runs, output / "demo.png")
    if as_json:
        print(json.dumps({"machine": describe_machine(), "runs": [as_dict(run) for run in runs]}, indent=2))
        return
    table = Table(title=f"{family}, {strategy}, {states} state slots, {kv_tokens:,} KV slots, alpha {alpha}")
    table.add_column("")
    for run in runs:
        table.add_column(run.name, justify="right")
    for label, cells in table_rows(runs):
        table.add_row(label, *cells)
    console.print(table)
    console.print(f"{describe_machine()}\nPicture: {output / 'demo.png'}")


def as_dict(run: Run) -> dict[str, Any]:
    return {**dataclasses.asdict(run), "hit_rate": run.hit_rate}


if __name__ == "__main__":
    main()
