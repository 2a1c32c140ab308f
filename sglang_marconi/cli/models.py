"""``sglang-marconi models``: what a model's cache takes."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sglang_marconi.cli.model_options import model_options, take_model
from sglang_marconi.sim.models import PAPER_MODEL, model_presets, total_cost


@click.command()
@click.argument("names", nargs=-1)
@model_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def models(names: tuple[str, ...], as_json: bool, **flags: Any) -> None:
    """Bytes and FLOPs of the models that are known by name, or of NAMES (config.json files, too).

    \b
    sglang-marconi models
    sglang-marconi models path/to/config.json --tp-size 2
    """
    flags.pop("model")
    presets = model_presets()
    records = []
    for name in names or presets:
        options = dict(flags)
        if name == PAPER_MODEL and not names:  # listed among the others, whatever their types
            options |= {"tp_size": 1, "kv_cache_dtype": "auto", "mamba_ssm_dtype": None}
        try:
            cost = total_cost(take_model({"model": name} | options))
        except ValueError as error:
            raise click.ClickException(str(error)) from error
        records.append(
            {
                "model": name,
                "kv_bytes_per_token": cost.kv_bytes_per_token,
                "state_bytes": cost.state_bytes,
                "flops_per_token": cost.linear_flops_per_token,
                "attention_flops_per_token_squared": cost.quadratic_flops_per_token_squared,
                "source": presets.get(name, "its configuration"),
            }
        )
    if as_json:
        click.echo(json.dumps({"models": records}))
    else:
        Console().print(_table(records))


def _table(records: list[dict[str, Any]]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("model", no_wrap=True)
    for head in ("KV, bytes\na token", "a state,\nMB", "a state is\ntokens of KV", "GFLOP\na token"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("sizes from")
    for record in records:
        kv, state = record["kv_bytes_per_token"], record["state_bytes"]
        table.add_row(
            record["model"],
            f"{kv:,}",
            f"{state / 1e6:.2f}",
            f"{state / kv:,.0f}" if kv else "-",
            f"{record['flops_per_token'] / 1e9:.2f}",
            record["source"],
        )
    return table
