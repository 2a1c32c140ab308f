"""Agent traces: one request a line, in block form (64-token blocks) or in token form."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sglang_marconi._core import BlockTraceBuilder, TokenTraceBuilder, Trace
from sglang_marconi.sim.traces.lines import Line

BLOCK_TOKENS = 64
_ID_BITS = 40


def read_agent_blocks(first: Line, rest: Iterator[Line]) -> Trace:
    """``ts`` from the session's start, ``ns`` the ids' name space, ``blocks`` = ``[[first id, count], ...]``.

    Sessions are replayed on one clock that starts at 0 for each: all of them begin together.
    """
    builder = BlockTraceBuilder(BLOCK_TOKENS)
    name_spaces: dict[Any, int] = {}
    for line in _by_time(first, rest):
        name_space = name_spaces.setdefault(_name(line, "ns"), len(name_spaces))
        prompt_tokens = line.count("input_len")
        blocks = _whole_blocks(line, name_space)
        if len(blocks) > prompt_tokens // BLOCK_TOKENS:
            raise line.error(
                f"blocks must count at most {prompt_tokens // BLOCK_TOKENS} blocks of {BLOCK_TOKENS} tokens "
                f"for input_len {prompt_tokens}, got {len(blocks)}"
            )
        try:
            builder.add(blocks, prompt_tokens, line.count("output_len"), name_space, line.seconds("ts"))
        except ValueError as error:
            raise error if str(error).startswith(f"{line.path}:") else line.error(str(error)) from None
    return builder.build()


def read_agent_tokens(first: Line, rest: Iterator[Line]) -> Trace:
    """``base``, ``keep``, ``new``, ``out``: the first ``keep`` tokens of request ``base``, then ``new``.

    ``base`` is a request of the same session by its number there, -1 for none.
    """
    builder = TokenTraceBuilder()
    requests: dict[Any, dict[int, int]] = {}
    for line in _by_time(first, rest):
        turns = requests.setdefault(_name(line, "session"), {})
        base, keep = line.count("base", low=-1), line.count("keep")
        new, reply = line.tokens("new"), line.tokens("out")
        if base == -1 and keep:
            raise line.error(f"keep must be 0 without a base, got {keep}")
        if base != -1 and base not in turns:
            raise line.error(f"base must be an earlier turn of the session or -1, got {base}")
        try:
            if base == -1:
                request = builder.add(new, reply, line.seconds("ts"))
            else:
                request = builder.add_continuation(turns[base], keep, new, reply, line.seconds("ts"))
        except ValueError as error:
            raise error if str(error).startswith(f"{line.path}:") else line.error(str(error)) from None
        turns[line.count("turn")] = request
        for key, counted in (("input_len", keep + len(new)), ("output_len", len(reply))):
            if line.count(key) != counted:
                raise line.error(f"{key} must be the number of tokens ({counted}), got {line.value[key]}")
    return builder.build()


def _by_time(first: Line, rest: Iterator[Line]) -> list[Line]:
    """All lines by their time; of equal times in the file's order."""
    return sorted(itertools.chain([first], rest), key=lambda line: line.seconds("ts"))


def _name(line: Line, key: str) -> Any:
    name = line.get(key)
    if not isinstance(name, int | str):
        raise line.error(f"{key} must be an integer or a string, got {name!r}")
    return name


def _whole_blocks(line: Line, name_space: int) -> npt.NDArray[np.uint64]:
    """The block ids in order, told apart by name space in the upper bits."""
    runs = line.get("blocks")
    parts = []
    total = 0
    for run in runs if isinstance(runs, list) else [runs]:
        is_pair = isinstance(run, list) and len(run) == 2 and all(type(x) is int for x in run)
        if not is_pair or run[0] < 0 or run[1] < 0 or run[0] + run[1] >= 2**_ID_BITS:
            raise line.error(f"blocks must be [[first id, count], ...] with ids below 2^{_ID_BITS}, got {run!r}")
        total += run[1]
        if total > 2**31 // BLOCK_TOKENS:
            raise line.error(f"blocks must count fewer than 2^31 tokens, got {total} blocks")
        parts.append(np.arange(run[0], run[0] + run[1], dtype=np.uint64))
    ids = np.concatenate(parts) if parts else np.empty(0, np.uint64)
    return np.asarray(ids + np.uint64(name_space << _ID_BITS), dtype=np.uint64)
