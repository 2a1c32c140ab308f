"""SGLang's two pools and the server in front of them, for the budget ``sglang``."""

from __future__ import annotations

import dataclasses
from typing import Literal

from sglang_marconi.cost import PrefixCost

Strategy = Literal["no_buffer", "extra_buffer"]

#: Tokens between the states that the scan of a prefill passes.
STATE_CHUNK_TOKENS = 64


@dataclasses.dataclass(frozen=True)
class Pools:
    """What bounds SGLang's cache, and when requests overlap.

    Requests are taken in the trace's order, each not before it arrived, when the prefill before it is done
    and the pools have room. Without times they run one by one.

    Args:
        kv_tokens: slots of the KV pool (``--max-total-tokens``).
        states: slots of the state pool (``--max-mamba-cache-size``); a running request holds one.
        page_size: tokens of a KV page.
        chunked_prefill_size: tokens that a prefill computes at once.
        strategy: ``no_buffer`` takes states where a prefill stops; ``extra_buffer`` on a grid of 64 tokens (or
            of the pages), and every request holds two more slots.
        track_interval: with ``extra_buffer``, tokens between the states that decoding leaves; SGLang's own cache
            ends a sequence at one of them, the marconi cache at its last token.
        prefill_s_per_token: seconds; one prefill runs at a time.
        decode_s_per_token: seconds; running requests decode side by side.
        max_running_requests: requests in flight.
    """

    kv_tokens: int
    states: int
    page_size: int = 1
    chunked_prefill_size: int = 8192
    strategy: Strategy = "no_buffer"
    track_interval: int = 256
    prefill_s_per_token: float = 0.0
    decode_s_per_token: float = 0.0
    max_running_requests: int = 256

    @property
    def grid(self) -> int:
        """Tokens between the states of a prefill."""
        return 1 if self.strategy == "no_buffer" else max(STATE_CHUNK_TOKENS, self.page_size)

    @property
    def slots_per_request(self) -> int:
        """State slots that a running request holds."""
        return 1 if self.strategy == "no_buffer" else 3

    def total_bytes(self, cost: PrefixCost) -> int:
        """Bytes of both pools."""
        return self.kv_tokens * cost.kv_bytes_per_token + self.states * cost.state_bytes


def split_memory(memory_bytes: int, cost: PrefixCost, mamba_full_memory_ratio: float) -> tuple[int, int]:
    """KV tokens and states that SGLang 0.5.23 makes of a cache's memory.

    Args:
        memory_bytes: of both pools.
        cost: bytes per token and state.
        mamba_full_memory_ratio: memory of states over memory of KV (``--mamba-full-memory-ratio``).

    Raises:
        ValueError: the memory does not hold one state and one token, or the model lacks one of the two.
    """
    if not (cost.state_bytes and cost.kv_bytes_per_token):
        raise ValueError("the budget sglang needs a hybrid model: one with attention KV and with states")
    budget = memory_bytes * mamba_full_memory_ratio / (1 + mamba_full_memory_ratio)
    slots = int(budget // cost.state_bytes)
    states = slots - 1  # SGLang pads the pool with one slot
    kv_tokens = (memory_bytes - slots * cost.state_bytes) // cost.kv_bytes_per_token
    if states < 1 or kv_tokens < 1:
        raise ValueError(
            f"{memory_bytes:,} bytes at --mamba-full-memory-ratio {mamba_full_memory_ratio:g} hold "
            f"{max(0, states)} states of {cost.state_bytes:,} bytes and {kv_tokens} KV tokens of "
            f"{cost.kv_bytes_per_token:,} bytes; give more memory or another ratio"
        )
    return kv_tokens, states
