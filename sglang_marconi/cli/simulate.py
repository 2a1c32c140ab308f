"""``sglang-marconi simulate``: replay a trace through policies."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table

from sglang_marconi.cli.byte_size import ByteSize
from sglang_marconi.cli.pool_options import make_pools, pool_options
from sglang_marconi.sim.models import load_model, total_cost
from sglang_marconi.sim.replay import POLICIES, PRESETS, Preset, ReplayRun, run_search
from sglang_marconi.sim.results import RunResult
from sglang_marconi.sim.traces import ARRIVALS, Arrival, read_trace

Alpha = float | Literal["auto"]


def _parse_alpha(ctx: click.Context, param: click.Parameter, value: str) -> Alpha:
    if value == "auto":
        return "auto"
    try:
        alpha = float(value)
    except ValueError:
        alpha = math.nan
    if not 0 <= alpha < math.inf:
        raise click.BadParameter(f'must be "auto" or a number >= 0, got {value!r}', ctx, param)
    return alpha


def _parse_policies(ctx: click.Context, param: click.Parameter, value: str) -> list[str]:
    names = [name.strip() for name in value.split(",")]
    for name in names:
        if name not in POLICIES:
            raise click.BadParameter(f"must be of {', '.join(POLICIES)}, got {name!r}", ctx, param)
    return names


@click.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False))
@click.option("--policy", required=True, callback=_parse_policies, help=f"One or more of {', '.join(POLICIES)}.")
@click.option("--capacity", type=ByteSize(), help="Cache for KV and states: 5GB, 40GiB, ...")
@click.option(
    "--budget",
    type=click.Choice(["bytes", "sglang"]),
    default="bytes",
    show_default=True,
    help="One number of bytes, or SGLang's pools of KV and of states with requests in flight.",
)
@click.option("--preset", type=click.Choice(PRESETS), default="default", show_default=True)
@click.option("--alpha", callback=_parse_alpha, default="0", show_default=True, help='A number >= 0, or "auto".')
@click.option("--model", default="paper-7b", show_default=True, help="paper-7b, or a model's config.json.")
@click.option("--recency", type=click.Choice(["linear", "inverse_age"]), default="linear", show_default=True)
@click.option("--bytes", "bytes_form", type=click.Choice(["own", "path"]), default="own", show_default=True)
@click.option("--min-branch-gain", type=click.IntRange(0, 2**31 - 1), default=32, show_default=True)
@click.option(
    "--arrival",
    type=click.Choice(ARRIVALS),
    default="round-robin",
    show_default=True,
    help="Order of a session trace, which has no times.",
)
@pool_options
@click.option("--threads", type=click.IntRange(1, 1024), help="Native threads; all cores by default.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--per-request", is_flag=True, help="With --json: also one list per quantity, by request.")
def simulate(
    trace: str,
    policy: list[str],
    capacity: int | None,
    budget: Literal["bytes", "sglang"],
    preset: Preset,
    alpha: Alpha,
    model: str,
    recency: Literal["linear", "inverse_age"],
    bytes_form: Literal["own", "path"],
    min_branch_gain: int,
    arrival: Arrival,
    threads: int | None,
    as_json: bool,
    per_request: bool,
    **pool_flags: Any,
) -> None:
    """Replay TRACE (JSON lines, gzipped or not) through caching policies.

    Budget bytes serves requests one by one. Policy oracle-alpha is marconi with the best static
    alpha of its grid; belady is a bound that no policy can pass, not a policy.
    """
    if per_request and not as_json:
        raise click.UsageError("--per-request needs --json")
    try:
        cost = load_model(model)
        pools = make_pools(capacity, total_cost(cost), pool_flags) if budget == "sglang" else None
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
        with _progress("reading") as on_progress:
            requests = read_trace(trace, arrival, on_progress)
        with _progress("replaying") as on_progress:
            results = run_search(requests, runs, threads, on_progress)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json.dumps({"runs": [_record(result, per_request) for result in results]}))
    else:
        Console().print(_table(results))


@contextmanager
def _progress(label: str) -> Iterator[Callable[[float], None]]:
    """A bar on standard error, shown on a terminal only and gone at the end."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=1.0)
        yield lambda fraction: bar.update(task, completed=fraction)


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
