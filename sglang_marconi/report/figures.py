"""The figures of a report, one function each; all take results of `sglang_marconi.sim`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sglang_marconi.cost import PrefixCost
from sglang_marconi.sim.latency import ServerModel
from sglang_marconi.sim.results import RunResult

#: Colours that stay apart for colour-blind readers (Okabe and Ito).
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#000000")
MISS_REASONS = {
    "never_seen": ("new text", "#BBBBBB"),
    "no_state_admitted": ("seen, no state was kept there", "#56B4E9"),
    "evicted": ("its state was evicted", "#D55E00"),
    "in_flight": ("still being computed", "#F0E442"),
}
_LENGTH_BINS = 8
_MOST_POINTS = 2000

Figure = Any  # matplotlib's, which is imported late: it takes a second


def _figure(width: float = 7.0, height: float = 4.0) -> tuple[Figure, Any]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    return figure, axes


def colours_of(labels: Iterable[str]) -> dict[str, str]:
    """A colour for each label, the same in all figures of a report."""
    return {label: COLOURS[place % len(COLOURS)] for place, label in enumerate(labels)}


def hit_rate_by_memory(results: Mapping[str, Sequence[RunResult]], colours: Mapping[str, str]) -> Figure:
    """Token hit rate against cache size; one line for each policy.

    Args:
        results: label of a policy -> its runs by rising capacity.
        colours: of all labels, as in the other figures.
    """
    figure, axes = _figure()
    for label, runs in results.items():
        sizes = [run.capacity_bytes / 1e9 for run in runs]
        is_bound = runs[0].policy == "belady"
        axes.plot(
            sizes,
            [100 * run.token_hit_rate for run in runs],
            marker="o",
            markersize=4,
            linestyle="--" if is_bound else "-",
            color=colours[label],
            label=label + (" (bound)" if is_bound else ""),
        )
    axes.set(xlabel="memory for KV and states, GB", ylabel="prompt tokens from the cache, %", ylim=(0, None))
    axes.set_xscale("log")
    ticks = sorted({run.capacity_bytes / 1e9 for runs in results.values() for run in runs})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.legend()
    return figure


def hit_rate_by_length(results: Mapping[str, RunResult], colours: Mapping[str, str]) -> Figure:
    """Token hit rate of requests of about the same prompt length."""
    figure, axes = _figure()
    lengths = next(iter(results.values())).trace.prompt_lengths()
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, _LENGTH_BINS + 1)).astype(np.int64))
    bins = np.clip(np.searchsorted(edges, lengths, side="right") - 1, 0, max(0, len(edges) - 2))
    count = int(bins.max(initial=0)) + 1
    width = 0.8 / len(results)
    for place, (label, run) in enumerate(results.items()):
        hits = np.bincount(bins, weights=run.native.hit_tokens, minlength=count)
        total = np.bincount(bins, weights=lengths, minlength=count)
        offset = (place - (len(results) - 1) / 2) * width
        axes.bar(np.arange(count) + offset, 100 * hits / np.maximum(1, total), width, color=colours[label], label=label)
    names = [f"{low:,}-\n{high:,}" for low, high in itertools.pairwise(edges)] or [f"{edges[0]:,}"]
    axes.set_xticks(np.arange(count), names[:count], fontsize=8)
    axes.set(xlabel="prompt tokens (bars of equally many requests)", ylabel="prompt tokens from the cache, %")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return figure


def hit_rate_boxes(results: Mapping[str, RunResult], colours: Mapping[str, str]) -> Figure:
    """How the hit rate differs between requests: median, quartiles, and the 5th and 95th percentile."""
    figure, axes = _figure(height=0.6 + 0.55 * len(results))
    shares = [100 * run.native.hit_tokens / np.maximum(1, run.trace.prompt_lengths()) for run in results.values()]
    boxes = axes.boxplot(
        shares,
        orientation="horizontal",
        whis=(5, 95),
        showfliers=False,
        patch_artist=True,
        tick_labels=list(results),
        medianprops={"color": "black"},
        widths=0.6,
    )
    for box, label in zip(boxes["boxes"], results, strict=True):
        box.set_facecolor(colours[label])
        box.set_alpha(0.7)
    axes.invert_yaxis()
    axes.set(xlabel="share of a request's prompt from the cache, %", xlim=(-2, 102))
    return figure


def ttft_distribution(results: Mapping[str, RunResult], colours: Mapping[str, str], server: ServerModel) -> Figure:
    """Share of requests whose first token has come by a time."""
    figure, axes = _figure()
    for label, run in results.items():
        ttft = np.sort(server.serve(run.trace, run.native.hit_tokens).ttft_ms)
        p95 = float(np.percentile(ttft, 95)) if len(ttft) else 0.0
        axes.plot(ttft, np.linspace(0, 100, len(ttft)), color=colours[label], label=f"{label} (P95 {p95:,.0f} ms)")
    axes.set_xscale("log")
    axes.set(xlabel="time to the first token, ms", ylabel="requests, %", ylim=(0, 100))
    axes.legend()
    return figure


def memory_over_time(run: RunResult, label: str) -> Figure:
    """What the cache holds after each request: KV and states."""
    figure, axes = _figure()
    step = max(1, len(run.native) // _MOST_POINTS)
    requests = np.arange(len(run.native))[::step]
    kv, states = run.native.kv_bytes[::step] / 1e9, run.native.state_bytes[::step] / 1e9
    axes.stackplot(requests, states, kv, labels=["states", "KV"], colors=["#009E73", "#56B4E9"], alpha=0.8)
    axes.axhline(run.capacity_bytes / 1e9, color="black", linewidth=1, linestyle="--", label="memory")
    axes.set(xlabel="requests", ylabel="GB", title=label)
    axes.legend(loc="lower right")
    return figure


def missed_tokens(results: Mapping[str, RunResult]) -> Figure:
    """Where the prompt tokens went: from the cache, or missed, and why."""
    figure, axes = _figure(height=0.9 + 0.5 * len(results))
    places = np.arange(len(results))
    left = np.zeros(len(results))

    def bars(shares: npt.NDArray[np.float64], label: str, colour: str) -> None:
        nonlocal left
        axes.barh(places, shares, left=left, color=colour, label=label, height=0.6)
        left = left + shares

    summaries = [run.summary() for run in results.values()]
    totals = np.array([max(1, summary["prompt_tokens"]) for summary in summaries])
    bars(np.array([100 * run.token_hit_rate for run in results.values()]), "from the cache", "#009E73")
    for reason, (label, colour) in MISS_REASONS.items():
        missed = np.array([summary["missed_tokens"][reason] for summary in summaries])
        if missed.any():
            bars(100 * missed / totals, label, colour)
    axes.set_yticks(places, list(results))
    axes.invert_yaxis()
    axes.set(xlabel="prompt tokens, %", xlim=(0, 100))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def flop_efficiency_by_length(cost: PrefixCost) -> Figure:
    """FLOPs that a cached prefix saves per byte that it takes, against its length (Marconi, figure 5)."""
    figure, axes = _figure()
    tokens = np.logspace(1.5, 5, 60)
    flops = np.array([cost.prefill_flops(round(length)) for length in tokens])
    held = cost.state_bytes + cost.kv_bytes_per_token * tokens
    axes.plot(tokens, flops / held, color=COLOURS[0], label="state and KV")
    if cost.kv_bytes_per_token:
        axes.plot(tokens, flops / (cost.kv_bytes_per_token * tokens), "--", color=COLOURS[6], label="KV alone")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set(xlabel="prefix, tokens", ylabel="FLOPs saved per byte")
    axes.legend()
    return figure
