"""``sglang-marconi simulate``: replay a trace through policies."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sglang_marconi.cli.byte_size import ByteSize
from sglang_marconi.cli.policy_options import Alpha, parse_alpha
from sglang_marconi.cli.progress import progress
from sglang_marconi.cli.replay_options import replay_options, take_runs
from sglang_marconi.cli.trace_options import take_trace, trace_options
from sglang_marconi.sim.latency import ServerModel, load_latency
from sglang_marconi.sim.replay import run_search
from sglang_marconi.sim.results import RunResult


@click.command()
@trace_options
@click.option("--capacity", type=ByteSize(), help="Cache for KV and states: 5GB, 40GiB, ...")
@click.option("--alpha", callback=parse_alpha, default="0", show_default=True, help='A number >= 0, or "auto".')
@replay_options
@click.option("--latency", help="Also TTFT and throughput: jamba-mini, or a file of `sglang-marconi latency`.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--per-request", is_flag=True, help="With --json: also one list per quantity, by request.")
def simulate(
    capacity: int | None,
    alpha: Alpha,
    threads: int | None,
    latency: str | None,
    as_json: bool,
    per_request: bool,
    **flags: Any,
) -> None:
    """Replay TRACE through caching policies.

    Budget bytes serves requests one by one. Policy oracle-alpha is marconi with the best static
    alpha of its grid; belady is a bound that no policy can pass, not a policy.

    \b
    sglang-marconi simulate trace.jsonl --policy sglang,marconi --capacity 20GB
    sglang-marconi simulate trace.jsonl --policy marconi --alpha auto --budget sglang \\
        --capacity 20GB --model qwen3-next-80b-a3b --tp-size 4 --latency jamba-mini
    """
    if per_request and not as_json:
        raise click.UsageError("--per-request needs --json")
    try:
        server = load_latency(latency) if latency else None
        runs = take_runs(flags, [capacity], [alpha])
        trace = take_trace(flags)
        with progress("replaying") as on_progress:
            results = run_search(trace, runs, threads, on_progress)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json.dumps({"runs": [_record(result, per_request, server) for result in results]}))
        return
    console = Console()
    console.print(_table(results))
    if server is not None:
        console.print(_latency_table(results, server))


def _record(result: RunResult, per_request: bool, server: ServerModel | None) -> dict[str, Any]:
    record = result.summary()
    if per_request:
        record |= result.per_request()
    if server is not None:
        times = server.serve(result.trace, result.native.hit_tokens)
        record["latency"] = times.summary()
        if per_request:
            record["latency"] |= {"request_ttft_ms": times.ttft_ms.tolist()}
    return record


def _latency_table(results: list[RunResult], server: ServerModel) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("policy", no_wrap=True)
    for head in ("TTFT P50 ms", "P95", "P99", "idle P50", "idle P95", "requests/s"):
        table.add_column(head, justify="right", no_wrap=True)
    for result in results:
        summary = server.serve(result.trace, result.native.hit_tokens).summary()
        busy, idle, rate = summary["ttft_ms"], summary["idle_ttft_ms"], summary["requests_per_second"]
        cells = [f"{ms:,.0f}" for ms in (busy["p50"], busy["p95"], busy["p99"], idle["p50"], idle["p95"])]
        table.add_row(result.policy, *cells, "-" if rate is None else f"{rate:.2f}")
    return table


def _table(results: list[RunResult]) -> Table:
    requests = len(results[0].trace)
    capacity_gb = results[0].capacity_bytes / 1e9
    table = Table(title=f"{requests} requests, {capacity_gb:g} GB", box=SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("\n\npolicy", no_wrap=True)
    missed = ("\nunseen\n%", "no\nstate\n%", "\nevicted\n%", "in\nflight\n%")
    for head in ("\n\nalpha", "\nhit\n%", "\nPFLOP\nsaved", *missed, "\nleaves\nevicted", "\ninner\nstates"):
        table.add_column(head, justify="right", no_wrap=True)
    for result in results:
        record = result.summary()
        tokens = max(1, record["prompt_tokens"])
        table.add_row(
            result.policy + (" (bound)" if result.policy == "belady" else ""),
            "-" if result.alpha is None else f"{result.alpha:g}",
            f"{100 * result.token_hit_rate:.2f}",
            f"{record['flops_saved'] / 1e15:.1f}",
            *(f"{100 * missed / tokens:.2f}" for missed in record["missed_tokens"].values()),
            str(record["leaf_victims"]),
            str(record["inner_victims"]),
        )
    return table
