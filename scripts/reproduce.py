#!/usr/bin/env python3
"""Makes the analogues of Marconi's figures 3, 5 and 7 to 13, and what the paper left out, in the paper's 7B setting.

The paper's traces (LMSys, ShareGPT, SWE-bench with its agent) cannot be had here: chats and agents are generated, and
the real conversations that ship with the package (or --tau, a longer file of them) stand beside them. The paper's
own numbers are printed next to ours. Writes an HTML page, the figures, and the tables as Markdown.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from machine import describe_machine
from rich.console import Console
from rich.progress import Progress

from sglang_marconi._core import PrefixHasher, Trace
from sglang_marconi.cost import PAPER_7B, PrefixCost, paper_cost
from sglang_marconi.report import figures
from sglang_marconi.report.html import Section, write_images, write_report
from sglang_marconi.sim.latency import JAMBA_MINI, ServerModel
from sglang_marconi.sim.models import load_model
from sglang_marconi.sim.replay import ReplayRun, run_search
from sglang_marconi.sim.results import RunResult
from sglang_marconi.sim.traces import Arrivals, read_trace
from sglang_marconi.sim.traces.lines import json_lines, open_text
from sglang_marconi.sim.workloads import WorkloadOptions, generate

SAMPLE = Path(__file__).resolve().parent.parent / "sglang_marconi" / "data" / "tau-airline-sample.jsonl.gz"
POLICIES = {
    "none": "no cache",
    "vllm": "vLLM+",
    "sglang": "SGLang+",
    "marconi": "Marconi",
    "oracle-alpha": "best alpha",
}
GB = 10**9

# Sizes after the data sets that the paper replays: short chats, longer chats, agents with long observations.
WORKLOADS: dict[str, tuple[str, WorkloadOptions]] = {
    "chat": ("chat", WorkloadOptions(400, 4, 200, 60, 200, 8, think_s=20.0)),
    "long chat": ("chat", WorkloadOptions(250, 8, 200, 60, 260, 8, think_s=20.0)),
    "agent": ("agent", WorkloadOptions(60, 7, 1600, 200, 160, 1, think_s=8.0)),
    "mixed": ("mixed", WorkloadOptions(200, 6, 400, 120, 200, 4, think_s=15.0)),
}
SIZES_GB = {
    "chat": (2, 4, 8, 16),
    "long chat": (2, 4, 8, 16),
    "agent": (10, 20, 40, 80),
    "mixed": (5, 10, 20, 40),
    "tau-airline": (1, 2, 4, 8),
}


@dataclasses.dataclass
class Workbench:
    """The traces, and replays of them."""

    folder: Path
    tau: Path
    traces: dict[str, Trace] = dataclasses.field(default_factory=dict)

    def make(self, name: str, regime: str, options: WorkloadOptions) -> Trace:
        path = self.folder / f"{name.replace(' ', '-')}.jsonl.zst"
        with open_text(path) as file:
            for line in generate(regime, options):
                file.write(_json(line))
        return read_trace(path)

    def prepare(self) -> None:
        for name, (regime, options) in WORKLOADS.items():
            self.traces[name] = self.make(name, regime, options)
        self.traces["tau-airline"] = read_trace(self.tau, Arrivals(sessions_per_second=0.5, think_s=10.0))

    def replay(
        self, trace: Trace, gigabytes: float, policies: Iterable[str] = POLICIES, cost: PrefixCost | None = None
    ) -> dict[str, RunResult]:
        """Marconi tunes its alpha as the paper does; the rest have none."""
        model = load_model("paper-7b") if cost is None else cost
        runs = [
            ReplayRun(policy, round(gigabytes * GB), model, alpha="auto" if policy == "marconi" else 0.0)
            for policy in policies
        ]
        return dict(zip(policies, run_search(trace, runs), strict=True))


def _json(line: dict[str, Any]) -> str:
    return json.dumps(line, separators=(",", ":")) + "\n"


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


# ---- the paper's figures, in its order ----


def block_reuse(bench: Workbench) -> Section:
    """Figure 3: how many cached blocks are ever used again, KV and states apart."""
    rows = []
    for name in ("chat", "agent"):
        requests = list(_sequences(bench.folder / f"{name}.jsonl.zst"))
        for block in (32, 64, 128):
            kv, states = _reused_blocks(requests, block)
            rows.append([name, str(block), percent(kv), percent(states)])
    rows += [["paper, LMSys", size, *shares] for size, shares in PAPER_BLOCKS.items()]
    return Section(
        "block-reuse",
        "Fine-grained checkpoints are rarely used (figure 3)",
        "With a state for every block, few are ever resumed, while the KV of the same blocks is. Ours reuse more: "
        "generated chats come back to their last reply, and the paper's trace has many one-turn conversations.",
        None,
        ["trace", "tokens a block", "KV reused %", "states reused %"],
        rows,
    )


PAPER_BLOCKS = {"32": ["25.0", "0.4"], "64": ["28.9", "1.0"], "128": ["36.3", "3.3"]}


def _sequences(path: Path) -> Iterable[tuple[list[int], list[int]]]:
    last: dict[int, list[int]] = {}
    for line in json_lines(path):
        value = line.value
        prompt = last.get(value["session_id"], [])[: value["keep"]] + value["delta"]
        last[value["session_id"]] = prompt + value["output_tokens"]
        yield prompt, value["output_tokens"]


def _reused_blocks(requests: Sequence[tuple[list[int], list[int]]], block: int) -> tuple[float, float]:
    hasher = PrefixHasher(1, 2)
    kv_used: dict[int, bool] = {}
    state_used: dict[int, bool] = {}
    for prompt, reply in requests:
        hashes, _ = hasher.hash(np.array(prompt + reply, np.uint32), 0)
        ends = hashes[block - 1 :: block].tolist()
        hit = 0
        while hit < len(prompt) // block and ends[hit] in kv_used:
            kv_used[ends[hit]] = True
            hit += 1
        if hit:
            state_used[ends[hit - 1]] = True
        for end in ends[hit:]:
            kv_used.setdefault(end, False)
            state_used.setdefault(end, False)
    return statistics.fmean(kv_used.values()), statistics.fmean(state_used.values())


def flop_efficiency(_: Workbench) -> Section:
    """Figure 5."""
    lengths = (100, 1000, 10_000, 30_000)
    held = {n: PAPER_7B.state_bytes + n * PAPER_7B.kv_bytes_per_token for n in lengths}
    return Section(
        "flop-efficiency",
        "Long prefixes save more per byte (figure 5)",
        "The state's bytes are shared by all tokens before it; KV alone would gain almost nothing with length.",
        figures.flop_efficiency_by_length(PAPER_7B),
        ["prefix, tokens", *(f"{n:,}" for n in lengths)],
        [["FLOPs saved per byte", *(f"{PAPER_7B.prefill_flops(n) / held[n]:,.0f}" for n in lengths)]],
    )


def hit_rates(bench: Workbench) -> Section:
    """Figure 7."""
    rows, gains, over_sglang = [], [], []
    for name, trace in bench.traces.items():
        for size in SIZES_GB[name]:
            results = bench.replay(trace, size)
            rates = {policy: result.token_hit_rate for policy, result in results.items()}
            rows.append([name, f"{size}", *(percent(rate) for rate in rates.values())])
            if rates["vllm"]:
                gains.append(rates["marconi"] / rates["vllm"])
            over_sglang.append(rates["marconi"] / max(1e-9, rates["sglang"]) - 1)
    rows.append(["paper, LMSys", "5", "0", "5.56", "38.55", "42.03", "44.54"])
    return Section(
        "hit-rates",
        "Token hit rates (figure 7)",
        f"Marconi over vLLM+: {statistics.fmean(gains):.1f} times on average here; the paper has 4.5 (LMSys), 7.3 "
        f"(ShareGPT) and 34.4 times (SWE-bench). Over SGLang+: {max(over_sglang):+.0%} at best here, P95 over the "
        "paper's settings +45.6, +19.0 and +219.7 %. The gain over SGLang+ comes from weighing FLOPs, which needs "
        "prefixes of very different lengths that compete: the paper's agents have them, our generated sessions are "
        "alike, and where all are used again soon, recency alone is a good guess.",
        None,
        ["trace", "GB", *POLICIES.values()],
        rows,
    )


def ttft(bench: Workbench) -> Section:
    """Figure 8."""
    rows = []
    for name, trace in bench.traces.items():
        size = SIZES_GB[name][1]
        computed = trace.prompt_lengths().astype(np.int64)
        none = np.percentile(JAMBA_MINI(computed), (5, 50, 95))
        for policy, result in bench.replay(trace, size, ("vllm", "sglang", "marconi")).items():
            ours = np.percentile(JAMBA_MINI(computed - result.native.hit_tokens), (5, 50, 95))
            cells = (f"{100 * (a / b - 1):+.1f}" for a, b in zip(ours, none, strict=True))
            rows.append([name, f"{size}", POLICIES[policy], *cells])
    rows.append(["paper, LMSys / ShareGPT / SWE-bench", "", "Marconi", "", "", "-36.9 / -73.2 / -46.8"])
    return Section(
        "ttft",
        "Time to the first token against no cache (figure 8)",
        "Prefill times of Jamba-1.5-Mini as published, on an idle server. Below 500 tokens they are flat, so short "
        "chats gain less than their hit rate says.",
        None,
        ["trace", "GB", "policy", "P5 %", "P50 %", "P95 %"],
        rows,
    )


def by_length(bench: Workbench) -> Section:
    """Figure 9."""
    results = bench.replay(bench.traces["agent"], SIZES_GB["agent"][1], ("sglang", "marconi", "oracle-alpha"))
    named = {POLICIES[policy]: result for policy, result in results.items()}
    return Section(
        "by-length",
        "Hit rate by prompt length (figure 9)",
        "Weighing FLOPs moves hits from short prompts to long ones: the paper has SGLang+ a little ahead on short "
        "prompts and Marconi far ahead on long ones.",
        figures.hit_rate_by_length(named, figures.colours_of(named)),
    )


def cache_size(bench: Workbench) -> Section:
    """Figure 10."""
    sizes = (5, 10, 20, 40, 60, 80, 120)
    lines: dict[str, list[RunResult]] = {}
    for size in sizes:
        for policy, result in bench.replay(bench.traces["agent"], size, ("vllm", "sglang", "marconi")).items():
            lines.setdefault(POLICIES[policy], []).append(result)
    rows = [[label, *(percent(run.token_hit_rate) for run in runs)] for label, runs in lines.items()]
    rows += [
        ["paper, Marconi at 60 / 80 / 100 / 120 / 140", "9.6 / 22.7 / 43.0 / 47.9 / 48.2"],
        ["paper, SGLang+", "7.7 / 15.0 / 25.6 / 36.9 / 43.9"],
    ]
    return Section(
        "cache-size",
        "Hit rate against cache size (figure 10)",
        "Policies differ most where the cache holds a part of the working set; the paper's agents have several times "
        "our tokens, so its sizes are larger.",
        figures.hit_rate_by_memory(lines, figures.colours_of(lines)),
        ["agent, GB", *map(str, sizes)],
        rows,
    )


def layer_mix(bench: Workbench) -> Section:
    """Figure 11."""
    mixes = ((32, 4), (30, 5), (28, 7), (24, 12), (0, 36))
    paper = {"marconi": ("18.1", "12.3", "8.4", "5.7", "5.1"), "sglang": ("11.3", "8.5", "6.6", "5.4", "5.0")}
    costs = [paper_cost(attention, ssm, attention + ssm, 4096, 128) for ssm, attention in mixes]
    rows = _by_cost(bench, costs, 10) + [[f"paper, {POLICIES[policy]}", *cells] for policy, cells in paper.items()]
    return Section(
        "layer-mix",
        "Layers of attention among SSM layers (figure 11)",
        "The more attention, the more KV a prefix takes and the less its state matters: without states, all policies "
        "evict alike.",
        None,
        ["agent, 10 GB; (SSM, attention)", *map(str, mixes)],
        rows,
    )


def state_size(bench: Workbench) -> Section:
    """Figure 12."""
    states = (16, 32, 64, 128)
    paper = {
        "marconi": ("29.4", "30.2", "29.9", "31.6"),
        "sglang": ("18.4", "18.0", "17.4", "16.4"),
        "vllm": ("5.2", "3.1", "1.5", "0.9"),
    }
    rows = _by_cost(bench, [paper_cost(4, 24, 28, 4096, state) for state in states], 10)
    rows += [[f"paper, {POLICIES[policy]}", *cells] for policy, cells in paper.items()]
    return Section(
        "state-size",
        "Size of the state (figure 12)",
        "Large states fill a cache that keeps one for every block; judicious admission does not notice them.",
        None,
        ["agent, 10 GB; N", *map(str, states)],
        rows,
    )


def _by_cost(bench: Workbench, costs: Sequence[PrefixCost], gigabytes: float) -> list[list[str]]:
    rows: dict[str, list[str]] = {}
    for cost in costs:
        results = bench.replay(bench.traces["agent"], gigabytes, ("vllm", "sglang", "marconi"), cost)
        for policy, result in results.items():
            rows.setdefault(POLICIES[policy], []).append(percent(result.token_hit_rate))
    return [[label, *cells] for label, cells in rows.items()]


def contention(bench: Workbench) -> Section:
    """Figure 13: arrival rate and think time."""
    rows = []
    regime, options = WORKLOADS["agent"]
    settings = [(rate, 8.0) for rate in (0.1, 0.5, 2.0)] + [(0.5, think) for think in (2.0, 30.0)]
    for rate, think in settings:
        trace = bench.make("contention", regime, dataclasses.replace(options, sessions_per_second=rate, think_s=think))
        results = bench.replay(trace, 20)
        rows.append([f"{rate:g}", f"{think:g}", *(percent(result.token_hit_rate) for result in results.values())])
    return Section(
        "contention",
        "Arrival rate and think time (figure 13)",
        "More sessions at a time, by faster arrivals or longer pauses, share the same memory. The paper "
        "finds its largest gains in between, where memory is short but not hopeless.",
        None,
        ["sessions/s", "think s", *POLICIES.values()],
        rows,
    )


# ---- what the paper left out ----


def adversarial(bench: Workbench) -> Section:
    """Where judicious admission loses against a checkpoint every 32 tokens."""
    rows = []
    for name, regime in (
        ("seen exactly twice", "twice"),
        ("documents in any order", "rag"),
        ("thinking cut", "thinking"),
    ):
        trace = bench.make(regime, regime, WorkloadOptions(200, 6, variants=6))
        for size in (10, 40, 160):
            results = bench.replay(trace, size, ("vllm", "sglang", "marconi"))
            rates = [results[policy].token_hit_rate for policy in results]
            rows.append([name, f"{size}", *map(percent, rates), f"{100 * (rates[2] - rates[0]):+.1f}"])
    return Section(
        "adversarial",
        "Where judicious admission loses",
        "A prefix that is used a second time and never again has no state at that place yet: a state every 32 tokens "
        "(vLLM+) finds it and Marconi does not. The same holds where prompts leave each other midway, once there is "
        "memory for all those states; with little memory they cost more than they bring.",
        None,
        ["trace", "GB", "vLLM+", "SGLang+", "Marconi", "Marconi - vLLM+"],
        rows,
    )


def cost_and_misses(bench: Workbench) -> Section:
    """Throughput, the cost of the cache, alpha's choice, and misses by reason."""
    rows = []
    server = ServerModel()
    for name, trace in bench.traces.items():
        size = SIZES_GB[name][1]
        for policy in ("none", "vllm", "sglang", "marconi"):
            start = time.perf_counter()
            (result,) = bench.replay(trace, size, (policy,)).values()
            micros = (time.perf_counter() - start) / len(trace) * 1e6
            summary = result.summary()
            missed = summary["missed_tokens"]
            total = max(1, summary["prompt_tokens"])
            busy_s = float(server.prefill(trace.prompt_lengths() - result.native.hit_tokens).sum()) / 1e3
            rows.append(
                [
                    f"{name}, {size} GB",
                    POLICIES[policy],
                    "-" if result.alpha is None else f"{result.alpha:g}",
                    f"{len(trace) / busy_s:.2f}",
                    f"{micros:.0f}",
                    *(percent(missed[reason] / total) for reason in ("never_seen", "no_state_admitted", "evicted")),
                ]
            )
    return Section(
        "left-out",
        "Throughput, cost, alpha, and why tokens are missed",
        "Prefills per second is what a server could take in if prefill were its limit. The cost is the simulator's "
        "per request, Marconi's with its search for alpha; docs/performance.md has the live cache's.",
        None,
        ["trace", "policy", "alpha", "prefills/s", "us/request", "new %", "no state %", "evicted %"],
        rows,
    )


SECTIONS: tuple[Callable[[Workbench], Section], ...] = (
    block_reuse,
    flop_efficiency,
    hit_rates,
    ttft,
    by_length,
    cache_size,
    layer_mix,
    state_size,
    contention,
    adversarial,
    cost_and_misses,
)


def write_markdown(path: Path, sections: Sequence[Section], footer: str) -> None:
    parts = ["# Marconi's figures, made again", "", f"`scripts/reproduce` on {footer}.", ""]
    for section in sections:
        parts += [f"## {section.title}", "", section.text, ""]
        if section.figure is not None:
            parts += [f"![{section.title}](figures/{section.name}.png)", ""]
        if section.rows:
            width = len(section.head)
            parts += ["| " + " | ".join(section.head) + " |", "|" + "---|" * width]
            parts += ["| " + " | ".join([*row, *[""] * (width - len(row))]) + " |" for row in section.rows] + [""]
    path.write_text("\n".join(parts), encoding="utf-8")


@click.command(help=__doc__)
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("reproduction"), show_default=True)
@click.option(
    "--tau",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=SAMPLE,
    help="Session trace of real agent conversations; the package's sample by default.",
)
def main(output: Path, tau: Path) -> None:
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, Progress(console=Console(stderr=True)) as progress:
        bench = Workbench(Path(folder), tau)
        task = progress.add_task("traces", total=1 + len(SECTIONS))
        bench.prepare()
        progress.advance(task)
        sections = []
        for make in SECTIONS:
            progress.update(task, description=make.__name__)
            sections.append(make(bench))
            progress.advance(task)
    machine = describe_machine()
    minutes = (time.perf_counter() - start) / 60
    write_images(output / "figures", sections, "png")
    write_markdown(output / "reproduction.md", sections, machine)
    summary = "The comparisons of the Marconi paper on other traces, its own numbers beside ours."
    write_report(
        output / "index.html", "Marconi's figures, made again", summary, sections, ["scripts/reproduce", f"# {machine}"]
    )
    click.echo(f"{output}/index.html and reproduction.md written in {minutes:.1f} minutes")


if __name__ == "__main__":
    main()
