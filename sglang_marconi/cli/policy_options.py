"""Values of the options that choose policies."""

from __future__ import annotations

import math
from typing import Literal

import click

from sglang_marconi.sim.replay import POLICIES

Alpha = float | Literal["auto"]


def parse_alpha(ctx: click.Context, param: click.Parameter, value: str) -> Alpha:
    """A number >= 0, or ``auto``."""
    if value == "auto":
        return "auto"
    try:
        alpha = float(value)
    except ValueError:
        alpha = math.nan
    if not 0 <= alpha < math.inf:
        raise click.BadParameter(f'must be "auto" or a number >= 0, got {value!r}', ctx, param)
    return alpha


def parse_alphas(ctx: click.Context, param: click.Parameter, value: str) -> list[Alpha]:
    """One or more, separated by commas."""
    return [parse_alpha(ctx, param, alpha.strip()) for alpha in value.split(",")]


def parse_policies(ctx: click.Context, param: click.Parameter, value: str) -> list[str]:
    """Names, separated by commas."""
    names = [name.strip() for name in value.split(",")]
    for name in names:
        if name not in POLICIES:
            raise click.BadParameter(f"must be of {', '.join(POLICIES)}, got {name!r}", ctx, param)
    return names
