"""Native core of sglang-marconi."""

from typing import Literal

class UtilityIndex:
    """Which cached node to evict: the exact minimum of Marconi's utility over the unlocked nodes.

    ``S(n) = recency(n) + alpha * efficiency(n)``, both min-max normalised to [0, 1] over the current
    candidates, that is the unlocked nodes (Marconi, section 4.2). A term that is equal for all candidates
    drops out. Ties: older last access first, then the lower id.

    ``recency="linear"`` takes the time stamp itself and is compared in real arithmetic, without rounding.
    ``recency="inverse_age"`` takes ``1 / (now - last_access)`` and is compared in doubles, computed as
    ``(inverse - inverse_min) / (inverse_max - inverse_min) + alpha * ((e - e_min) / (e_max - e_min))``.

    A change takes O(log n), O(log^2 n) at worst. A victim takes O(log n), in the inverse-age form O(n) at
    worst: when efficiency falls with time along the very curve of equal scores. A refused argument raises and
    changes nothing:
    ValueError for a value out of its range or an id held already, KeyError for an id that is not held,
    TypeError for a type or an integer that does not fit (ids: int64, last_access and now: uint64).
    """

    def __init__(self, alpha: float = 0.0, recency: Literal["linear", "inverse_age"] = "linear") -> None: ...
    @property
    def alpha(self) -> float: ...
    @property
    def recency(self) -> Literal["linear", "inverse_age"]: ...
    def set_alpha(self, alpha: float) -> None:
        """Weigh efficiency against recency anew: finite, >= 0; 0 is LRU. O(1)."""

    def set_recency_form(self, recency: Literal["linear", "inverse_age"]) -> None:
        """Change the form of recency. O(1)."""

    def insert(self, id: int, last_access: int, efficiency: float) -> None:
        """Add an unlocked node.

        Args:
            id: >= 0 and not held.
            last_access: logical clock, any order.
            efficiency: FLOPs per byte, finite, >= 0.
        """

    def remove(self, id: int) -> None:
        """Forget a node, locked or not."""

    def clear(self) -> None:
        """Forget all nodes."""

    def touch(self, id: int, last_access: int) -> None:
        """Set a node's last access, locked or not."""

    def set_efficiency(self, id: int, efficiency: float) -> None:
        """Set a node's FLOPs per byte, locked or not."""

    def update(self, id: int, last_access: int, efficiency: float) -> None:
        """Set both in one move."""

    def lock(self, id: int) -> bool:
        """Take a node out of the candidates; it stays a member. Returns whether it was unlocked."""

    def unlock(self, id: int) -> bool:
        """Make a node a candidate again. Returns whether it was locked."""

    def is_locked(self, id: int) -> bool: ...
    def contains(self, id: int) -> bool: ...
    def __contains__(self, id: int) -> bool: ...
    def last_access(self, id: int) -> int: ...
    def efficiency(self, id: int) -> float: ...
    def size(self) -> int:
        """Number of members, locked ones included."""

    def __len__(self) -> int: ...
    def candidates(self) -> int:
        """Number of unlocked members."""

    def victim(self, now: int = 0) -> int | None:
        """Answer the id of the candidate with the least score, None without candidates.

        Args:
            now: logical clock, later than every candidate's last access; the linear form ignores it.

        Raises:
            ValueError: form inverse_age and now is not later than a candidate's last access.
        """

    def pop_victim(self, now: int = 0) -> int | None:
        """victim(), removed from the index."""

    def scores(self, now: int = 0) -> list[tuple[int, float]]:
        """Every candidate's id and rounded score, in (last access, id) order. O(n): for tests and metrics."""
