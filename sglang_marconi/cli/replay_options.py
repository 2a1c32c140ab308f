"""Options that say what is replayed: policies, budgets, forms of the utility, the model and the pools."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import click

from sglang_marconi.cli.model_options import model_options, take_model
from sglang_marconi.cli.policy_options import Alpha, parse_policies
from sglang_marconi.cli.pool_options import Command, add_options, make_pools, pool_options
from sglang_marconi.sim.models import total_cost
from sglang_marconi.sim.replay import POLICIES, PRESETS, ReplayRun

_OPTIONS = (
    click.option("--policy", required=True, callback=parse_policies, help=f"One or more of {', '.join(POLICIES)}."),
    click.option(
        "--budget",
        type=click.Choice(["bytes", "sglang"]),
        default="bytes",
        show_default=True,
        help="One number of bytes, or SGLang's pools of KV and of states with requests in flight.",
    ),
    click.option("--preset", type=click.Choice(PRESETS), default="default", show_default=True),
    click.option("--recency", type=click.Choice(["linear", "inverse_age"]), default="linear", show_default=True),
    click.option("--bytes", "bytes_form", type=click.Choice(["own", "path"]), default="own", show_default=True),
    click.option("--min-branch-gain", type=click.IntRange(0, 2**31 - 1), default=32, show_default=True),
    model_options,
    pool_options,
    click.option("--threads", type=click.IntRange(1, 1024), help="Native threads; all cores by default."),
)


def replay_options(command: Command) -> Command:
    """Adds the options to a command; `take_runs` takes their values."""
    return add_options(command, _OPTIONS)


def take_runs(options: dict[str, Any], capacities: Sequence[int | None], alphas: Sequence[Alpha]) -> list[ReplayRun]:
    """Removes the options and makes a run for each capacity, policy and alpha (where the policy has one).

    Raises:
        ValueError: a run that cannot be; found before a long trace is read.
    """
    model = take_model(options)
    policies, budget = options.pop("policy"), options.pop("budget")
    base = ReplayRun(
        policies[0],
        0,
        model,
        preset=options.pop("preset"),
        recency=options.pop("recency"),
        bytes=options.pop("bytes_form"),
        min_branch_gain_tokens=options.pop("min_branch_gain"),
    )
    runs = []
    for capacity in capacities:
        pools = make_pools(capacity, total_cost(model), options) if budget == "sglang" else None
        if pools is not None:
            capacity = pools.total_bytes(total_cost(model))
        if capacity is None:
            raise ValueError("the budget bytes needs --capacity")
        for policy in policies:
            run = dataclasses.replace(base, policy=policy, capacity_bytes=capacity, pools=pools)
            runs += [dataclasses.replace(run, alpha=alpha) for alpha in (alphas if policy == "marconi" else alphas[:1])]
    for run in runs:
        run.check()
    return runs


def labels(runs: Sequence[ReplayRun]) -> list[str]:
    """A name for each run: its policy, with alpha where the policy has several."""
    several = {
        policy
        for policy, group in itertools.groupby(sorted(runs, key=lambda run: run.policy), key=lambda run: run.policy)
        if len({run.alpha for run in group}) > 1
    }
    return [f"{run.policy}, alpha {_shown(run.alpha)}" if run.policy in several else run.policy for run in runs]


def _shown(alpha: Alpha) -> str:
    return alpha if isinstance(alpha, str) else f"{alpha:g}"
