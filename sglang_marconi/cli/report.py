"""``sglang-marconi report``: one page that says what a trace would hit."""

from __future__ import annotations

import importlib.metadata
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from sglang_marconi.cli.byte_size import ByteSizes
from sglang_marconi.cli.policy_options import Alpha, parse_alphas
from sglang_marconi.cli.progress import progress
from sglang_marconi.cli.replay_options import labels, replay_options, take_runs
from sglang_marconi.cli.trace_options import take_trace, trace_options
from sglang_marconi.report import figures
from sglang_marconi.report.html import Section, write_images, write_report
from sglang_marconi.sim.latency import ServerModel, load_latency
from sglang_marconi.sim.models import total_cost
from sglang_marconi.sim.replay import run_search
from sglang_marconi.sim.results import RunResult
from sglang_marconi.sim.trace_stats import trace_stats

Lines = dict[str, list[RunResult]]  # label -> results by rising capacity


@click.command()
@trace_options
@click.option("--capacity", type=ByteSizes(), required=True, help="Cache sizes: 5GB,10GB,20GB.")
@click.option("--alpha", callback=parse_alphas, default="0", show_default=True, help='Numbers >= 0, or "auto".')
@replay_options
@click.option("--latency", default="jamba-mini", show_default=True, help="Or a file of `sglang-marconi latency`.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="HTML file to write.")
@click.option("--images", type=click.Path(path_type=Path), help="Folder for the figures as files, too.")
@click.option("--image-format", type=click.Choice(["png", "svg"]), default="png", show_default=True)
def report(
    capacity: list[int],
    alpha: list[Alpha],
    threads: int | None,
    latency: str,
    output: Path,
    images: Path | None,
    image_format: str,
    **flags: Any,
) -> None:
    """Write a page about TRACE: hit rates by memory and by prompt length, TTFT, what is missed and why.

    Details are given for the middle one of the cache sizes.

    \b
    sglang-marconi report trace.jsonl --policy sglang,marconi,belady --capacity 5GB,10GB,20GB -o report.html
    """
    name = Path(flags["trace"]).name
    try:
        server = load_latency(latency)
        runs = take_runs(flags, sorted(capacity), alpha)
        trace = take_trace(flags)
        with progress("replaying") as on_progress:
            results = run_search(trace, runs, threads, on_progress)
        lines: Lines = {}
        for label, result in zip(labels(runs), results, strict=True):
            lines.setdefault(label, []).append(result)
        sections = _sections(lines, trace_stats(trace), server, latency)
        sections.append(_efficiency(total_cost(runs[0].model)))
        version = importlib.metadata.version("sglang-marconi")
        commands = [shlex.join(["sglang-marconi", *sys.argv[1:]]), f"# sglang-marconi {version}"]
        write_report(output, f"Prefix caching of {name}", _summary(lines), sections, commands)
        if images is not None:
            write_images(images, sections, image_format)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{output} written", err=True)


def _summary(lines: Lines) -> str:
    middle = _middle(lines)
    size = next(iter(middle.values())).capacity_bytes / 1e9
    policies = {label: run for label, run in middle.items() if run.policy not in ("belady", "oracle-alpha")}
    best = max(policies, key=lambda label: policies[label].token_hit_rate)
    text = f"With {size:g} GB, {best} serves {policies[best].token_hit_rate:.1%} of all prompt tokens from the cache"
    if (sglang := policies.get("sglang")) is not None and best != "sglang":
        text += f"; SGLang's own policy serves {sglang.token_hit_rate:.1%}"
    bound = middle.get("belady")
    return text + (f". No policy could serve more than {bound.token_hit_rate:.1%}." if bound else ".")


def _middle(lines: Lines) -> dict[str, RunResult]:
    """Each policy's run with the middle one of the cache sizes."""
    return {label: runs[(len(runs) - 1) // 2] for label, runs in lines.items()}


def _sections(lines: Lines, stats: dict[str, Any], server: ServerModel, latency: str) -> list[Section]:
    middle, colours = _middle(lines), figures.colours_of(lines)
    cached = {label: run for label, run in middle.items() if run.policy != "none"}
    real = {label: run for label, run in middle.items() if run.policy != "belady"}
    size = f"{next(iter(middle.values())).capacity_bytes / 1e9:g} GB"
    capacities = [f"{run.capacity_bytes / 1e9:g} GB" for run in next(iter(lines.values()))]
    prompts, reuse = stats["prompt_tokens"], stats["reuse"]
    sections = [
        Section(
            "memory",
            "More memory, more hits",
            "How many of the prompts' tokens did not have to be computed again, for each cache size. A dashed line is "
            "a bound that knows the future: no policy can pass it, and none may reach it.",
            figures.hit_rate_by_memory(lines, colours),
            ["policy", *capacities],
            [[label, *(f"{run.token_hit_rate:.1%}" for run in runs)] for label, runs in lines.items()],
        ),
        Section(
            "missed",
            f"Why tokens were missed ({size})",
            "Hybrid models can go on from a prefix only where a state was kept: text that was seen before may still be "
            "missed because no state was kept at that place, or because it was evicted.",
            figures.missed_tokens(middle),
        ),
        Section(
            "lengths",
            f"Hits by prompt length ({size})",
            "Long prompts cost most to compute; alpha weighs them against recent ones.",
            figures.hit_rate_by_length(cached, colours),
        ),
        Section(
            "requests",
            f"Hits of single requests ({size})",
            "Half of the requests lie in a box, nine of ten between the whiskers; the line is the median.",
            figures.hit_rate_boxes(cached, colours),
        ),
        Section(
            "ttft",
            f"Time to the first token ({size})",
            f"A server model: one prefill at a time, prefill times of {latency}, requests as they arrive in the trace. "
            "Further left is better.",
            figures.ttft_distribution(real, colours, server),
            ["policy", "P50 ms", "P95 ms", "P99 ms", "requests/s"],
            [_times(label, run, server) for label, run in real.items()],
        ),
    ]
    sections += [
        Section(
            f"held-{place}",
            f"What the cache holds: {label} ({size})",
            "KV grows with the tokens kept, states with the number of places that one can go on from.",
            figures.memory_over_time(run, label),
        )
        for place, (label, run) in enumerate(cached.items())
        if run.policy in ("sglang", "marconi")
    ]
    sections.append(
        Section(
            "trace",
            "The trace",
            "Shares are of all prompt tokens, with a cache that never evicts.",
            None,
            ["", ""],
            [
                ["requests", f"{stats['requests']:,}"],
                ["duration", f"{stats['duration_s']:,.0f} s"],
                ["prompt tokens", f"{prompts['total']:,}"],
                ["prompt, median / P95 / longest", f"{prompts['median']:,} / {prompts['p95']:,} / {prompts['max']:,}"],
                ["seen before", f"{reuse['seen']:.1%}"],
                ["reusable with a state every 32 tokens", f"{reuse['every_block']:.1%}"],
                ["reusable with states at branch points and ends", f"{reuse['judicious']:.1%}"],
            ],
        )
    )
    return sections


def _times(label: str, run: RunResult, server: ServerModel) -> list[str]:
    summary = server.serve(run.trace, run.native.hit_tokens).summary()
    rate = summary["requests_per_second"]
    return [
        label,
        *(f"{summary['ttft_ms'][p]:,.0f}" for p in ("p50", "p95", "p99")),
        "-" if rate is None else f"{rate:.2f}",
    ]


def _efficiency(cost: Any) -> Section:
    return Section(
        "efficiency",
        "Why long prefixes are worth more",
        "FLOPs that a cached prefix saves for each byte that it takes: a state takes the same memory after ten tokens "
        "as after ten thousand.",
        figures.flop_efficiency_by_length(cost),
    )
