"""How the ranks of a server agree on what one of them found."""

from __future__ import annotations

from typing import Any

import torch


class RankAgreement:
    """Rank 0 of a group decides; SGLang's CPU group carries its word.

    Args:
        group: a CPU process group, or None for a single process.
    """

    def __init__(self, group: Any) -> None:
        self._group = group if group is not None and torch.distributed.get_world_size(group) > 1 else None
        self.decides = self._group is None or torch.distributed.get_rank(self._group) == 0

    def agree(self, value: int) -> int:
        """Rank 0's value on every rank; all ranks must call this at the same step."""
        if self._group is None:
            return value
        word = torch.tensor([value], dtype=torch.int64)
        source = torch.distributed.get_global_rank(self._group, 0)
        torch.distributed.broadcast(word, src=source, group=self._group)
        return int(word.item())
