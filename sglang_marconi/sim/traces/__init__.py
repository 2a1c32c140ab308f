"""Trace files: one reader per format, all read into one native trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sglang_marconi._core import Trace
from sglang_marconi.sim.traces.agent_trace import read_agent_blocks, read_agent_tokens
from sglang_marconi.sim.traces.block_trace import read_block_trace
from sglang_marconi.sim.traces.lines import Line, json_lines
from sglang_marconi.sim.traces.session_trace import ARRIVALS, Arrival, read_session_trace
from sglang_marconi.sim.traces.token_trace import read_token_trace

__all__ = ["ARRIVALS", "Arrival", "read_trace"]


def read_trace(
    path: str | Path, arrival: Arrival = "round-robin", on_progress: Callable[[float], None] | None = None
) -> Trace:
    """Read a trace file, gzipped or not; the format is told by the first line's keys.

    Args:
        path: JSON lines of a token, session, block or agent trace.
        arrival: order of a session trace's requests: ``round-robin`` (every session's first request, then
            every second ...) or ``sequential`` (one session after the other).
        on_progress: called now and then with the fraction of the file that is read.

    Raises:
        ValueError: a bad line, named with file, line, key and rule.
        OSError: the file cannot be read.
    """
    lines = json_lines(Path(path), on_progress)
    first = next(lines, None)
    if first is None:
        raise ValueError(f"{path}: the trace is empty")
    return _reader_for(first, arrival)(first, lines)


def _reader_for(first: Line, arrival: Arrival) -> Callable[[Line, Any], Trace]:
    keys = first.value.keys()
    if "turns" in keys and "tokens" in keys:
        return lambda line, lines: read_session_trace(line, lines, arrival)
    if "hash_ids" in keys:
        return read_block_trace
    if "blocks" in keys:
        return read_agent_blocks
    if "base" in keys and "new" in keys:
        return read_agent_tokens
    if "input_tokens" in keys or "delta" in keys:
        return read_token_trace
    raise first.error(
        "no trace format has these keys: one needs input_tokens or delta (token trace), tokens and turns "
        f"(session trace), hash_ids (block trace), blocks or base (agent trace); got {', '.join(keys)}"
    )
