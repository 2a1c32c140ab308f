"""Which positions of a request deserve a state (Marconi, section 4.1, judicious admission).

A state is kept at a *branch point*, where a second request shares a prefix and leaves it, and
after the *last decoded token*. The prompt's end is an option. Everything else a prefill passes
is published as KV alone.
"""

from __future__ import annotations

from typing import Any


class JudiciousAdmission:
    """Decides for one radix cache.

    Args:
        min_branch_gain: tokens that a branch point must lie beyond the nearest usable state.
        grid: tokens between positions where a prefill can take a state, from where it resumes on: 1
            when states are taken at chunk ends (``no_buffer``), SGLang's checkpoint grid with
            ``extra_buffer``.
        admit_prompt_end: keep the state at the prompt's end too.
    """

    def __init__(self, min_branch_gain: int, grid: int, admit_prompt_end: bool) -> None:
        self._min_gain = max(1, min_branch_gain)
        self._grid = grid
        self._admit_prompt_end = admit_prompt_end

    def branch_point(self, kv_match: int, state_match: int) -> int | None:
        """Where a prompt leaves the tree, in tokens, or None when a state there gains too little.

        Args:
            kv_match: tokens of the prompt that the tree's KV covers.
            state_match: tokens that the best usable state covers.
        """
        # A prefill leaves states on a grid that begins where it resumes.
        gain = (kv_match - state_match) // self._grid * self._grid
        return state_match + gain if gain >= self._min_gain else None

    def wants_state(self, req: Any, position: int) -> bool:
        """Whether the running request's state after ``position`` tokens stays in the tree."""
        if position == req.mamba_branching_seqlen:
            return True
        return self._admit_prompt_end and req.extend_end >= len(req.origin_input_ids)
