"""Token traces: one request a line, with the whole prompt or, compact, what is new of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from sglang_marconi._core import TokenTraceBuilder, Trace
from sglang_marconi.sim.traces.lines import Line


def read_token_trace(first: Line, rest: Iterator[Line]) -> Trace:
    """``session_id``, ``ts``, ``input_tokens`` or ``keep`` and ``delta``, ``output_tokens``.

    Lines are in order of time. ``keep`` counts the leading tokens of the session's previous prompt and reply.
    """
    builder = TokenTraceBuilder()
    last_of_session: dict[Any, int] = {}
    for line in itertools.chain([first], rest):
        session = _session(line)
        arrival_s = line.seconds("ts")
        reply = line.tokens("output_tokens")
        try:
            if "delta" in line.value:
                prompt_tokens, last_of_session[session] = _add_compact(
                    builder, line, last_of_session.get(session), reply, arrival_s
                )
            else:
                prompt = line.tokens("input_tokens")
                prompt_tokens = len(prompt)
                last_of_session[session] = builder.add(prompt, reply, arrival_s)
        except ValueError as error:
            raise _placed(line, error) from None
        _check_count(line, "num_input_tokens", prompt_tokens)
        _check_count(line, "num_output_tokens", len(reply))
    return builder.build()


def _add_compact(
    builder: TokenTraceBuilder, line: Line, base: int | None, reply: Any, arrival_s: float
) -> tuple[int, int]:
    keep = line.count("keep")
    delta = line.tokens("delta")
    if base is None:
        if keep:
            raise line.error(f"keep must be 0 in a session's first request, got {keep}")
        return len(delta), builder.add(delta, reply, arrival_s)
    return keep + len(delta), builder.add_continuation(base, keep, delta, reply, arrival_s)


def _session(line: Line) -> Any:
    session = line.get("session_id")
    if not isinstance(session, int | str):
        raise line.error(f"session_id must be an integer or a string, got {session!r}")
    return session


def _check_count(line: Line, key: str, counted: int) -> None:
    if key in line.value and line.count(key) != counted:
        raise line.error(f"{key} must be the number of tokens ({counted}), got {line.value[key]}")


def _placed(line: Line, error: ValueError) -> ValueError:
    return error if str(error).startswith(f"{line.path}:") else line.error(str(error))
