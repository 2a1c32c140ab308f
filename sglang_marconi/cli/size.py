"""``sglang-marconi size``: how to split a cache's memory between states and KV."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sglang_marconi.cli.byte_size import ByteSize
from sglang_marconi.cli.model_options import model_options, take_model
from sglang_marconi.cli.policy_options import Alpha, parse_alpha, parse_policies
from sglang_marconi.cli.pool_options import server_options, server_pools
from sglang_marconi.cli.progress import progress
from sglang_marconi.cli.trace_options import take_trace, trace_options
from sglang_marconi.sim.models import total_cost
from sglang_marconi.sim.replay import POLICIES, ReplayRun
from sglang_marconi.sim.sizing import Sizing, Split, size_pools


@click.command()
@trace_options
@click.option("--memory", type=ByteSize(), required=True, help="For KV and states on one GPU: 20GB, 40GiB, ...")
@click.option(
    "--policy",
    default="sglang,marconi",
    show_default=True,
    callback=parse_policies,
    help=f"One or more of {', '.join(POLICIES)}.",
)
@click.option("--alpha", callback=parse_alpha, default="0", show_default=True, help='A number >= 0, or "auto".')
@model_options
@server_options
@click.option("--threads", type=click.IntRange(1, 1024), help="Native threads; all cores by default.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def size(
    memory: int,
    policy: list[str],
    alpha: Alpha,
    threads: int | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Find the split of --memory between states and KV that gives TRACE most hits, for each policy.

    --memory is what SGLang has left for its cache: --mem-fraction-static of the GPU's memory without
    the weights. The log of a server says it at start-up.

    \b
    sglang-marconi size trace.jsonl --model qwen3-next-80b-a3b --tp-size 4 --memory 20GB
    """
    try:
        model = take_model(flags)
        run = ReplayRun(policy[0], memory, model, alpha, pools=server_pools(1, 1, flags))
        requests = take_trace(flags)
        with progress("replaying") as on_progress:
            sizings = size_pools(requests, run, policy, memory, threads, on_progress)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        cost = total_cost(model)
        record = {
            "memory_bytes": memory,
            "kv_bytes_per_token": cost.kv_bytes_per_token,
            "state_bytes": cost.state_bytes,
            "policies": [_record(sizing, alpha) for sizing in sizings],
        }
        click.echo(json.dumps(record))
        return
    console = Console()
    console.print(_table(sizings))
    for sizing in sizings:
        console.print(_advice(sizing, alpha), highlight=False, soft_wrap=True)


def _table(sizings: list[Sizing]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=0, pad_edge=False)
    for head in ("policy", "states : KV", "states", "KV tokens", "hit %", "states used %", "KV used %", "too small"):
        table.add_column(head, justify="left" if head == "policy" else "right", no_wrap=True)
    for sizing in sizings:
        for split in sizing.splits:
            table.add_row(
                sizing.policy,
                f"{split.ratio:g}",
                f"{split.pools.states:,}",
                f"{split.pools.kv_tokens:,}",
                f"{100 * split.result.token_hit_rate:.2f}",
                f"{100 * split.state_fill:.0f}",
                f"{100 * split.kv_fill:.0f}",
                "(best)" if split is sizing.best else sizing.binding_pool(split),
                style="bold" if split is sizing.best else "",
            )
        table.add_section()
    return table


def _advice(sizing: Sizing, alpha: Alpha) -> str:
    best, default = sizing.best, sizing.default
    text = f"{sizing.policy}: {100 * best.result.token_hit_rate:.2f} % of prompt tokens hit"
    if default is not None and default is not best:
        text += f", {100 * default.result.token_hit_rate:.2f} % with SGLang's default split"
        if (binding := sizing.binding_pool(default)) != "neither":
            text += f" (too small there: {binding})"
    flags = _server_flags(sizing.policy, best, alpha)
    return f"{text}\n    {flags}" if flags else f"{text}"


def _server_flags(policy: str, split: Split, alpha: Alpha) -> str:
    """What to start the server with, empty for a policy that no server has."""
    if policy not in ("sglang", "sglang-native", "marconi"):
        return ""
    words = ["--mamba-full-memory-ratio", f"{split.ratio:g}"]
    if split.pools.strategy == "extra_buffer":
        words += ["--mamba-radix-cache-strategy", "extra_buffer"]
    if policy == "marconi":
        words += ["--radix-cache-backend", "marconi"]
        if alpha != 0:
            words += ["--radix-eviction-policy-config", f"'{json.dumps({'alpha': alpha})}'"]
    return " ".join(words)


def _record(sizing: Sizing, alpha: Alpha) -> dict[str, Any]:
    def split_record(split: Split) -> dict[str, Any]:
        return {
            "mamba_full_memory_ratio": split.ratio,
            "states": split.pools.states,
            "kv_tokens": split.pools.kv_tokens,
            "token_hit_rate": split.result.token_hit_rate,
            "states_used": split.state_fill,
            "kv_used": split.kv_fill,
            "too_small": sizing.binding_pool(split),
        }

    return {
        "policy": sizing.policy,
        "best": split_record(sizing.best),
        "default": split_record(sizing.default) if sizing.default else None,
        "flags": _server_flags(sizing.policy, sizing.best, alpha),
        "splits": [split_record(split) for split in sizing.splits],
    }
