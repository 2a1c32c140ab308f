"""The trace argument, and options that say how it is read."""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import Any

import click

from sglang_marconi._core import Trace
from sglang_marconi.cli.pool_options import Command, add_options
from sglang_marconi.cli.progress import progress
from sglang_marconi.sim.traces import ORDERS, SPACINGS, Arrivals, load_tokenizer, read_trace

_SECONDS = click.FloatRange(0, 1e9)
_SAMPLE = "sample"


class TracePath(click.Path):
    """A trace file, or ``sample`` for the conversations that come with the package."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == _SAMPLE and not Path(value).exists():
            value = str(importlib.resources.files("sglang_marconi") / "data" / "tau-airline-sample.jsonl.gz")
        return super().convert(value, param, ctx)


_OPTIONS = (
    click.argument("trace", type=TracePath()),
    click.option("--tokenizer", type=click.Path(exists=True), help="tokenizer.json or a model's folder, for text."),
    click.option(
        "--arrival",
        type=click.Choice(ORDERS),
        default="round-robin",
        show_default=True,
        help="Order of sessions without times.",
    ),
    click.option(
        "--sessions-per-second",
        type=click.FloatRange(0, 1e6, min_open=True),
        help="Sessions without times start at this rate, instead of --arrival.",
    ),
    click.option("--spacing", type=click.Choice(SPACINGS), default="poisson", show_default=True),
    click.option("--think-time", type=_SECONDS, default=10.0, show_default=True, help="Mean seconds between turns."),
    click.option("--reply-time", type=_SECONDS, default=0.02, show_default=True, help="Seconds per token of a reply."),
    click.option("--arrival-seed", type=int, default=0, show_default=True),
)


def trace_options(command: Command) -> Command:
    """Adds the argument and the options to a command; `take_trace` takes their values."""
    return add_options(command, _OPTIONS)


def take_arrivals(options: dict[str, Any]) -> Arrivals:
    """Removes the options of arrival.

    Raises:
        ValueError: they do not go together.
    """
    return Arrivals(
        order=options.pop("arrival"),
        sessions_per_second=options.pop("sessions_per_second"),
        spacing=options.pop("spacing"),
        think_s=options.pop("think_time"),
        reply_s_per_token=options.pop("reply_time"),
        seed=options.pop("arrival_seed"),
    )


def take_trace(options: dict[str, Any]) -> Trace:
    """Removes the trace's options and reads it, with a progress bar.

    Raises:
        ValueError: a bad line or tokenizer.
        OSError: a file cannot be read.
    """
    path, tokenizer, arrivals = options.pop("trace"), options.pop("tokenizer"), take_arrivals(options)
    encode = load_tokenizer(tokenizer) if tokenizer else None
    with progress("reading") as on_progress:
        return read_trace(path, arrivals, on_progress, encode)
