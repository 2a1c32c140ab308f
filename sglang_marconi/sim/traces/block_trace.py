"""Block traces: one request a line, hashes of the blocks of its prompt.

Mooncake's form has blocks of 512 tokens and milliseconds; Qwen-Bailian's, told by its ``chat_id``, has blocks of
16 tokens, seconds, and says which chat a request goes on with.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from sglang_marconi._core import BlockTraceBuilder, Trace
from sglang_marconi.sim.traces.lines import Line

MOONCAKE_BLOCK_TOKENS = 512
BAILIAN_BLOCK_TOKENS = 16
_FIRST_OF_CHAT = -1


def read_block_trace(first: Line, rest: Iterator[Line]) -> Trace:
    """``timestamp`` (ms), ``input_length``, ``output_length``, ``hash_ids``.

    Only whole blocks are shared; what is known of replies is stated at ``BlockTraceBuilder``.
    """
    builder = BlockTraceBuilder(MOONCAKE_BLOCK_TOKENS)
    for line in itertools.chain([first], rest):
        _add(builder, line, MOONCAKE_BLOCK_TOKENS, session=-1, arrival_s=line.seconds("timestamp", 1e-3))
    return builder.build()


def read_bailian_trace(first: Line, rest: Iterator[Line]) -> Trace:
    """``chat_id``, ``parent_chat_id`` (-1 for none), ``timestamp`` (s), and the block trace's other keys.

    A chat whose parent is not in the trace starts a session. ``type`` and ``turn`` are not needed.
    """
    builder = BlockTraceBuilder(BAILIAN_BLOCK_TOKENS)
    session_of_chat: dict[Any, int] = {}
    for line in itertools.chain([first], rest):
        chat, parent = line.get("chat_id"), line.value.get("parent_chat_id", _FIRST_OF_CHAT)
        for key, value in (("chat_id", chat), ("parent_chat_id", parent)):
            if not isinstance(value, int | str):
                raise line.error(f"{key} must be an integer or a string, got {value!r}")
        session = session_of_chat.setdefault(chat, session_of_chat.get(parent, len(session_of_chat)))
        _add(builder, line, BAILIAN_BLOCK_TOKENS, session, arrival_s=line.seconds("timestamp"))
    return builder.build()


def _add(builder: BlockTraceBuilder, line: Line, block_tokens: int, session: int, arrival_s: float) -> None:
    prompt_tokens = line.count("input_length")
    hashes = line.hashes("hash_ids")
    whole, blocks = prompt_tokens // block_tokens, -(-prompt_tokens // block_tokens)
    if not whole <= len(hashes) <= blocks:
        raise line.error(f"hash_ids must have {blocks} ids for {prompt_tokens} tokens, got {len(hashes)}")
    try:
        builder.add(hashes[:whole], prompt_tokens, line.count("output_length"), session, arrival_s)
    except ValueError as error:
        raise error if str(error).startswith(f"{line.path}:") else line.error(str(error)) from None
