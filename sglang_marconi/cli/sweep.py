"""``sglang-marconi sweep``: many cache sizes, policies and alphas at once."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sglang_marconi.cli.byte_size import ByteSizes
from sglang_marconi.cli.policy_options import Alpha, parse_alphas
from sglang_marconi.cli.progress import progress
from sglang_marconi.cli.replay_options import labels, replay_options, take_runs
from sglang_marconi.cli.trace_options import take_trace, trace_options
from sglang_marconi.sim.replay import ReplayRun, run_search
from sglang_marconi.sim.results import RunResult


@click.command()
@trace_options
@click.option("--capacity", type=ByteSizes(), required=True, help="Cache sizes: 5GB,10GB,20GB.")
@click.option("--alpha", callback=parse_alphas, default="0", show_default=True, help='Numbers >= 0, or "auto".')
@replay_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def sweep(capacity: list[int], alpha: list[Alpha], threads: int | None, as_json: bool, **flags: Any) -> None:
    """Replay TRACE with every cache size, policy and alpha: token hit rates side by side.

    \b
    sglang-marconi sweep trace.jsonl --policy sglang,marconi,belady --capacity 5GB,10GB,20GB --alpha 0,1
    """
    try:
        runs = take_runs(flags, capacity, alpha)
        trace = take_trace(flags)
        with progress("replaying") as on_progress:
            results = run_search(trace, runs, threads, on_progress)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json.dumps({"runs": [result.summary() for result in results]}))
    else:
        Console().print(_table(runs, results))


def _table(runs: list[ReplayRun], results: list[RunResult]) -> Table:
    table = Table(title="token hit rate, %", box=SIMPLE_HEAD, padding=0, pad_edge=False)
    capacities = list(dict.fromkeys(run.capacity_bytes for run in runs))
    table.add_column("policy", no_wrap=True)
    for capacity in capacities:
        table.add_column(f"{capacity / 1e9:g} GB", justify="right", no_wrap=True)
    rows: dict[str, list[str]] = {}
    for label, result in zip(labels(runs), results, strict=True):
        rows.setdefault(label, []).append(f"{100 * result.token_hit_rate:.2f}")
    for label, cells in rows.items():
        table.add_row(label, *cells)
    return table
