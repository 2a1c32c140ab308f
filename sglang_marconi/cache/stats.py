"""What the live cache counted."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class CacheStats:
    """Counters since start-up, of one rank."""

    branch_states_admitted: int = 0
    last_token_states_admitted: int = 0
    prompt_end_states_admitted: int = 0
    #: A branch point was wanted while another request was being prefilled in chunks.
    branch_skipped_chunk_in_flight: int = 0
    #: Chunked prefill is off, or its chunks must end on a grid: a prefill cannot stop at a branch point.
    branch_skipped_no_chunking: int = 0
    #: Every state slot was in use: the request went on without the checkpoint.
    state_skipped_pool_full: int = 0
    #: Every state slot was in use: the request was served without its cached prefix.
    hit_skipped_pool_full: int = 0
    #: Exceptions in the policy: the request was served without the state, the order of victims was built anew.
    policy_failures: int = 0
    states_evicted: int = 0
    leaves_evicted: int = 0
    kv_tokens_evicted: int = 0

    def leaf_evicted(self, kv_tokens: int) -> None:
        """A leaf of that many tokens was deleted."""
        self.leaves_evicted += 1
        self.kv_tokens_evicted += kv_tokens

    def as_dict(self) -> dict[str, int]:
        return dataclasses.asdict(self)
