"""``sglang-marconi trace``: make, convert and describe traces."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sglang_marconi.cli.progress import progress
from sglang_marconi.cli.trace_options import take_trace, trace_options
from sglang_marconi.sim.trace_stats import trace_stats
from sglang_marconi.sim.traces import is_text, load_tokenizer
from sglang_marconi.sim.traces.lines import json_lines, open_text
from sglang_marconi.sim.traces.request_dump import is_request_dump, read_request_dump
from sglang_marconi.sim.traces.text_trace import Encode, read_conversations
from sglang_marconi.sim.workloads import REGIMES, WorkloadOptions, generate

_OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="File to write; .gz and .zst are compressed.",
)
_COUNT = click.IntRange(1, 10**7)


@click.group()
def trace() -> None:
    """Make, convert and describe traces. (A server records one: docs/recording.md.)"""


@trace.command()
@trace_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def stats(as_json: bool, **options: Any) -> None:
    """Sizes, rate and reuse of TRACE."""
    try:
        figures = trace_stats(take_trace(options))
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json.dumps(figures))
        return
    table = Table(box=SIMPLE_HEAD, show_header=False, padding=0, pad_edge=False)
    table.add_row("requests ", f"{figures['requests']:,}")
    table.add_row("duration ", f"{figures['duration_s']:,.0f} s")
    for name in ("prompt_tokens", "reply_tokens"):
        spread = figures[name]
        text = f"{spread['total']:,}; median {spread['median']:,}, P95 {spread['p95']:,}, longest {spread['max']:,}"
        table.add_row(name.replace("_", " ") + " ", text)
    reuse = figures["reuse"]
    table.add_row("prompt tokens seen before ", f"{reuse['seen']:.1%}")
    table.add_row("  reusable with a state every 32 tokens ", f"{reuse['every_block']:.1%}")
    table.add_row("  reusable with states at branch points and ends ", f"{reuse['judicious']:.1%}")
    Console().print(table)


@trace.command("generate")
@click.argument("regime", type=click.Choice(list(REGIMES)))
@_OUTPUT
@click.option("--sessions", type=_COUNT, default=100, show_default=True)
@click.option("--turns", type=_COUNT, default=8, show_default=True, help="Mean of a session.")
@click.option(
    "--shared-tokens", type=_COUNT, default=1000, show_default=True, help="System prompt, document, examples."
)
@click.option("--new-tokens", type=_COUNT, default=150, show_default=True, help="Mean of what a turn adds.")
@click.option("--reply-tokens", type=_COUNT, default=200, show_default=True, help="Mean.")
@click.option("--variants", type=_COUNT, default=4, show_default=True, help="Different shared texts.")
@click.option(
    "--sessions-per-second",
    type=click.FloatRange(0, 1e6, min_open=True),
    default=0.5,
    show_default=True,
    help="Poisson.",
)
@click.option("--think-time", "think_s", type=click.FloatRange(0, 1e9), default=15.0, show_default=True)
@click.option("--reply-time", "reply_s_per_token", type=click.FloatRange(0, 1e9), default=0.02, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def generate_trace(regime: str, output: Path, **options: Any) -> None:
    """Write a synthetic token trace.

    \b
    chat       prompts extend their predecessors
    agent      the same, with long observations and a tool prompt for all
    agent-cut  agents that drop old observations
    thinking   the thoughts, half of a reply, leave the history
    rag        a system prompt and shared documents in any order
    few-shot   blocks of examples, a question after them
    twice      long prefixes, each seen exactly twice
    branching  users go back to earlier turns, and ask again
    mixed      chats, every fifth session an agent
    shift      agent-cut in the first half, chat in the second

    \b
    sglang-marconi trace generate agent-cut --sessions 200 -o agents.jsonl.gz
    """
    workload = WorkloadOptions(**options)
    with progress("generating") as on_progress:
        lines = _watched(generate(regime, workload), workload.sessions, on_progress)
        _write(output, lines)


def _watched(lines: Iterator[dict[str, Any]], sessions: int, on_progress: Any) -> Iterator[dict[str, Any]]:
    for line in lines:
        on_progress((line["session_id"] + 1) / sessions)
        yield line


@trace.command()
@click.argument("inputs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@_OUTPUT
@click.option("--tokenizer", type=click.Path(exists=True), help="tokenizer.json or a model's folder, for text.")
def convert(inputs: tuple[Path, ...], output: Path, tokenizer: str | None) -> None:
    """Turn conversations in text, or what SGLang dumped, into a trace of token ids.

    INPUTS are files of ShareGPT, LMSYS-Chat, Chatbot Arena, OpenAI messages or SWE-agent trajectories
    (JSON lines, a JSON array, a .traj file), which become a session trace; or the .pkl files, or
    their folder, of a server's --dump-requests-folder, which become a token trace. All other
    formats are read as they are.

    \b
    sglang-marconi trace convert sharegpt.json --tokenizer models/qwen3 -o sharegpt.jsonl.zst
    sglang-marconi trace convert dumps/ -o production.jsonl.zst
    """
    try:
        encode = load_tokenizer(tokenizer) if tokenizer else None
        files = [file for path in inputs for file in (sorted(path.glob("*.pkl")) if path.is_dir() else [path])]
        if not files:
            raise ValueError(f"{inputs[0]}: the folder holds no .pkl file")
        if len({is_request_dump(file) for file in files}) > 1:
            raise ValueError("inputs must be all text or all dumps of SGLang")
        with progress("converting") as on_progress:
            written = _write(output, _converted(files, encode, on_progress))
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{written} lines written to {output}", err=True)


def _converted(files: list[Path], encode: Encode | None, on_progress: Any) -> Iterator[dict[str, Any]]:
    for place, file in enumerate(files):

        def watch(fraction: float, place: int = place) -> None:
            on_progress((place + fraction) / len(files))

        if is_request_dump(file):
            for line in read_request_dump(file, encode):
                yield line | {"session_id": f"{place}-{line['session_id']}"}
            watch(1.0)
        else:
            yield from _sessions(file, encode, watch)


def _sessions(file: Path, encode: Encode | None, on_progress: Any) -> Iterator[dict[str, Any]]:
    lines = json_lines(file, on_progress)
    if (first := next(lines, None)) is None:
        raise ValueError(f"{file}: the file is empty")
    if not is_text(first):
        raise first.error(f"holds no conversation in text; what it has ({', '.join(first.value)}) is read as it is")
    if encode is None:
        raise first.error("conversations in text need --tokenizer: a tokenizer.json, or a model's folder")
    for session in read_conversations(itertools.chain([first], lines), encode):
        yield {"session": session.name, "tokens": session.tokens.tolist(), "turns": session.turns}


def _write(output: Path, lines: Iterable[dict[str, Any]]) -> int:
    """Write the lines; an error leaves no file that looks whole."""
    unfinished = output.with_name(f".unfinished-{output.name}")
    written = 0
    try:
        with open_text(unfinished) as file:
            for line in lines:
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
                written += 1
        unfinished.rename(output)
    finally:
        unfinished.unlink(missing_ok=True)
    return written
