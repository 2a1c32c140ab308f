"""Options that say which model is served, and in which types on how many GPUs: named as SGLang's flags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from sglang_marconi.cli.pool_options import Command, add_options
from sglang_marconi.cost import DTYPE_BYTES
from sglang_marconi.sim.models import Model, load_model

_KV_DTYPES = ("auto", *DTYPE_BYTES)
_STATE_DTYPES = ("float32", "bfloat16", "float16")

_OPTIONS: tuple[Callable[[Command], Command], ...] = (
    click.option(
        "--model",
        default="paper-7b",
        show_default=True,
        help="A name that `sglang-marconi models` lists, or a model's config.json or its folder.",
    ),
    click.option("--tp-size", type=click.IntRange(1, 1024), default=1, show_default=True, help="Memory is one GPU's."),
    click.option("--kv-cache-dtype", type=click.Choice(_KV_DTYPES), default="auto", show_default=True),
    click.option("--mamba-ssm-dtype", type=click.Choice(_STATE_DTYPES), help="The model's own by default."),
)


def model_options(command: Command) -> Command:
    """Adds the options to a command; `take_model` takes their values."""
    return add_options(command, _OPTIONS)


def take_model(options: dict[str, Any]) -> Model:
    """Removes the model's options and loads the model.

    Raises:
        ValueError: the model cannot be read, or does not go with the other options.
    """
    name, ranks = options.pop("model"), options.pop("tp_size")
    kv_dtype, state_dtype = options.pop("kv_cache_dtype"), options.pop("mamba_ssm_dtype")
    return load_model(name, kv_bytes=DTYPE_BYTES.get(kv_dtype), state_bytes=DTYPE_BYTES.get(state_dtype), ranks=ranks)
