"""``sglang-marconi simulate``: replay a trace through policies."""

from __future__ import annotations

import json
from typing import Any, Literal

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sglang_marconi.cli.byte_size import ByteSize
from sglang_marconi.cli.model_options import model_options, take_model
from sglang_marconi.cli.policy_options import Alpha, parse_alpha, parse_policies
from sglang_marconi.cli.pool_options import make_pools, pool_options
from sglang_marconi.cli.progress import progress
from sglang_marconi.cli.trace_options import take_trace, trace_options
from sglang_marconi.sim.models import total_cost
from sglang_marconi.sim.replay import POLICIES, PRESETS, Preset, ReplayRun, run_search
from sglang_marconi.sim.results import RunResult


@click.command()
@trace_options
@click.option("--policy", required=True, callback=parse_policies, help=f"One or more of {', '.join(POLICIES)}.")
@click.option("--capacity", type=ByteSize(), help="Cache for KV and states: 5GB, 40GiB, ...")
@click.option(
    "--budget",
    type=click.Choice(["bytes", "sglang"]),
    default="bytes",
    show_default=True,
    help="One number of bytes, or SGLang's pools of KV and of states with requests in flight.",
)
@click.option("--preset", type=click.Choice(PRESETS), default="default", show_default=True)
@click.option("--alpha", callback=parse_alpha, default="0", show_default=True, help='A number >= 0, or "auto".')
@click.option("--recency", type=click.Choice(["linear", "inverse_age"]), default="linear", show_default=True)
@click.option("--bytes", "bytes_form", type=click.Choice(["own", "path"]), default="own", show_default=True)
@click.option("--min-branch-gain", type=click.IntRange(0, 2**31 - 1), default=32, show_default=True)
@model_options
@pool_options
@click.option("--threads", type=click.IntRange(1, 1024), help="Native threads; all cores by default.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--per-request", is_flag=True, help="With --json: also one list per quantity, by request.")
def simulate(
    policy: list[str],
    capacity: int | None,
    budget: Literal["bytes", "sglang"],
    preset: Preset,
    alpha: Alpha,
    recency: Literal["linear", "inverse_age"],
    bytes_form: Literal["own", "path"],
    min_branch_gain: int,
    threads: int | None,
    as_json: bool,
    per_request: bool,
    **flags: Any,
) -> None:
    """Replay TRACE (JSON lines, gzipped or not) through caching policies.

    Budget bytes serves requests one by one. Policy oracle-alpha is marconi with the best static
    alpha of its grid; belady is a bound that no policy can pass, not a policy.
    """
    if per_request and not as_json:
        raise click.UsageError("--per-request needs --json")
    try:
        cost = take_model(flags)
        pools = make_pools(capacity, total_cost(cost), flags) if budget == "sglang" else None
        if pools is not None:
            capacity = pools.total_bytes(total_cost(cost))
        if capacity is None:
            raise ValueError("the budget bytes needs --capacity")
        runs = [
            ReplayRun(name, capacity, cost, alpha, preset, recency, bytes_form, min_branch_gain, pools)
            for name in policy
        ]
        # Invalid runs fail before a long trace is read.
        for run in runs:
            run.check()
        requests = take_trace(flags)
        with progress("replaying") as on_progress:
            results = run_search(requests, runs, threads, on_progress)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json.dumps({"runs": [_record(result, per_request) for result in results]}))
    else:
        Console().print(_table(results))


def _record(result: RunResult, per_request: bool) -> dict[str, Any]:
    record = result.summary()
    return record | result.per_request() if per_request else record


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
