"""Block traces: one request a line, hashes of the 512-token blocks of its prompt (Mooncake's form)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from sglang_marconi._core import BlockTraceBuilder, Trace
from sglang_marconi.sim.traces.lines import Line

BLOCK_TOKENS = 512


def read_block_trace(first: Line, rest: Iterator[Line]) -> Trace:
    """``timestamp`` (ms), ``input_length``, ``output_length``, ``hash_ids``.

    Only whole blocks are shared; what is known of replies is stated at ``BlockTraceBuilder``.
    """
    builder = BlockTraceBuilder(BLOCK_TOKENS)
    for line in itertools.chain([first], rest):
        prompt_tokens = line.count("input_length")
        hashes = line.hashes("hash_ids")
        blocks = -(-prompt_tokens // BLOCK_TOKENS)
        if not prompt_tokens // BLOCK_TOKENS <= len(hashes) <= blocks:
            raise line.error(f"hash_ids must have {blocks} ids for {prompt_tokens} tokens, got {len(hashes)}")
        try:
            builder.add(
                hashes[: prompt_tokens // BLOCK_TOKENS],
                prompt_tokens,
                line.count("output_length"),
                arrival_s=line.seconds("timestamp", 1e-3),
            )
        except ValueError as error:
            raise error if str(error).startswith(f"{line.path}:") else line.error(str(error)) from None
    return builder.build()
