"""The policy of one live cache: what its parts share."""

from __future__ import annotations

import dataclasses

from sglang_marconi._core import UtilityOrder
from sglang_marconi.cache.admission import JudiciousAdmission
from sglang_marconi.cache.guard import PolicyGuard
from sglang_marconi.cache.stats import CacheStats
from sglang_marconi.config import MarconiConfig
from sglang_marconi.cost import PrefixCost


@dataclasses.dataclass(frozen=True)
class LivePolicy:
    """Configuration, cost model, admission, order of victims, counters and guard of one cache."""

    config: MarconiConfig
    cost: PrefixCost
    admission: JudiciousAdmission
    order: UtilityOrder
    stats: CacheStats
    guard: PolicyGuard

    @classmethod
    def create(cls, config: MarconiConfig, cost: PrefixCost, grid: int) -> LivePolicy:
        """A policy with an empty order; ``grid`` as in ``JudiciousAdmission``, in tokens."""
        stats = CacheStats()
        return cls(
            config=config,
            cost=cost,
            admission=JudiciousAdmission(
                config.min_branch_gain, grid, admit_prompt_end=config.admit_prompt_end == "always"
            ),
            order=UtilityOrder(
                **dataclasses.asdict(cost), alpha=config.first_alpha, recency=config.recency, bytes=config.bytes
            ),
            stats=stats,
            guard=PolicyGuard(stats),
        )
