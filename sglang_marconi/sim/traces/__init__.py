"""Trace files: one reader per format, all read into one native trace."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

from sglang_marconi._core import Trace
from sglang_marconi.sim.traces.agent_trace import read_agent_blocks, read_agent_tokens
from sglang_marconi.sim.traces.arrivals import ORDERS, SPACINGS, Arrivals
from sglang_marconi.sim.traces.block_trace import read_bailian_trace, read_block_trace
from sglang_marconi.sim.traces.lines import Line, json_lines
from sglang_marconi.sim.traces.session_trace import build_session_trace, parse_session
from sglang_marconi.sim.traces.text_trace import CONVERSATION_KEYS, Encode, load_tokenizer, read_conversations
from sglang_marconi.sim.traces.token_trace import read_token_trace

__all__ = ["ORDERS", "SPACINGS", "Arrivals", "is_text", "load_tokenizer", "read_trace"]


def read_trace(
    path: str | Path,
    arrivals: Arrivals | None = None,
    on_progress: Callable[[float], None] | None = None,
    encode: Encode | None = None,
) -> Trace:
    """Read a trace file, compressed (gzip, zstd) or not; the format is told by the first object's keys.

    Args:
        path: a token, session, block or agent trace, or conversations in text; JSON lines or a JSON array.
        arrivals: when the requests of sessions without times arrive.
        on_progress: called now and then with the fraction of the file that is read.
        encode: the tokenizer (`load_tokenizer`), which conversations in text need.

    Raises:
        ValueError: a bad line, named with file, line, key and rule.
        OSError: the file cannot be read.
    """
    lines = json_lines(Path(path), on_progress)
    first = next(lines, None)
    if first is None:
        raise ValueError(f"{path}: the trace is empty")
    return _read(first, lines, arrivals or Arrivals(), encode)


def _read(first: Line, rest: Iterator[Line], arrivals: Arrivals, encode: Encode | None) -> Trace:
    keys = first.value.keys()
    if "turns" in keys and "tokens" in keys:
        return build_session_trace(map(parse_session, itertools.chain([first], rest)), arrivals)
    if is_text(first):
        if encode is None:
            raise first.error("conversations in text need --tokenizer: a tokenizer.json, or a model's folder")
        return build_session_trace(read_conversations(itertools.chain([first], rest), encode), arrivals)
    if "hash_ids" in keys:
        return (read_bailian_trace if "chat_id" in keys else read_block_trace)(first, rest)
    if "blocks" in keys:
        return read_agent_blocks(first, rest)
    if "base" in keys and "new" in keys:
        return read_agent_tokens(first, rest)
    if "input_tokens" in keys or "delta" in keys:
        return read_token_trace(first, rest)
    raise first.error(
        "no trace format has these keys: one needs input_tokens or delta (token trace), tokens and turns "
        "(session trace), hash_ids (block trace), blocks or base (agent trace), or messages (conversations in text: "
        f"{', '.join(CONVERSATION_KEYS)}); got {', '.join(keys)}"
    )


def is_text(line: Line) -> bool:
    """Whether a record is a conversation in text."""
    return any(key in line.value for key in CONVERSATION_KEYS)
