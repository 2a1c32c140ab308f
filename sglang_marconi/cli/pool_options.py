"""Options of the budget ``sglang``: named as SGLang's flags where SGLang has them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import click

from sglang_marconi.cost import PrefixCost
from sglang_marconi.sim.pools import Pools, split_memory

_COUNT = click.IntRange(1, 2**40)
_RATE = click.FloatRange(0, 1e9, min_open=True)

_SPLIT = (
    click.option(
        "--mamba-full-memory-ratio",
        type=click.FloatRange(0, 1000, min_open=True),
        default=0.9,
        show_default=True,
        help="Budget sglang: memory of states over memory of KV.",
    ),
    click.option("--max-total-tokens", type=_COUNT, help="Budget sglang: KV slots, instead of the split."),
    click.option("--max-mamba-cache-size", type=_COUNT, help="Budget sglang: state slots, instead of the split."),
)
_SERVER = (
    click.option(
        "--mamba-radix-cache-strategy",
        type=click.Choice(["no_buffer", "extra_buffer"]),
        default="no_buffer",
        show_default=True,
        help="Budget sglang: states where a prefill stops, or on its grid of 64 tokens.",
    ),
    click.option("--mamba-track-interval", type=_COUNT, default=256, show_default=True),
    click.option("--page-size", type=click.IntRange(1, 4096), default=1, show_default=True),
    click.option("--chunked-prefill-size", type=click.IntRange(1, 2**31 - 1), default=8192, show_default=True),
    click.option("--max-running-requests", type=click.IntRange(1, 2**31 - 1), default=256, show_default=True),
    click.option("--prefill-rate", type=_RATE, help="Budget sglang: tokens per second; no time without it."),
    click.option("--decode-rate", type=_RATE, help="Budget sglang: tokens per second and request, likewise."),
)


Command = Callable[..., None]


def add_options(command: Command, options: Iterable[Callable[[Command], Command]]) -> Command:
    """The command with the options, which its help lists in this order."""
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed([*options]), command)


def pool_options(command: Command) -> Command:
    """Adds what makes the pools: how the memory is split, and the server in front of it."""
    return add_options(command, (*_SPLIT, *_SERVER))


def server_options(command: Command) -> Command:
    """Adds the server's options alone."""
    return add_options(command, _SERVER)


def make_pools(memory_bytes: int | None, cost: PrefixCost, flags: dict[str, Any]) -> Pools:
    """The pools that SGLang would make of the memory, but for what the flags name.

    Raises:
        ValueError: the memory is not given or too small to split.
    """
    kv_tokens, states = flags["max_total_tokens"], flags["max_mamba_cache_size"]
    if kv_tokens is None or states is None:
        if memory_bytes is None:
            raise ValueError("give --capacity, or both --max-total-tokens and --max-mamba-cache-size")
        split = split_memory(memory_bytes, cost, flags["mamba_full_memory_ratio"])
        kv_tokens, states = kv_tokens or split[0], states or split[1]
    return server_pools(kv_tokens, states, flags)


def server_pools(kv_tokens: int, states: int, flags: dict[str, Any]) -> Pools:
    """Pools of these sizes, behind the server that the flags describe."""
    return Pools(
        kv_tokens=kv_tokens,
        states=states,
        page_size=flags["page_size"],
        strategy=flags["mamba_radix_cache_strategy"],
        track_interval=flags["mamba_track_interval"],
        chunked_prefill_size=flags["chunked_prefill_size"],
        prefill_s_per_token=1 / flags["prefill_rate"] if flags["prefill_rate"] else 0.0,
        decode_s_per_token=1 / flags["decode_rate"] if flags["decode_rate"] else 0.0,
        max_running_requests=flags["max_running_requests"],
    )
