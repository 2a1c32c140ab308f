"""Serving never dies for the sake of caching: what happens when the policy itself fails.

An exception in the policy costs the request a state or the tree its order of victims, never the request: a decision
that fails becomes "no branch" or "no state", and an order of victims that missed an event is built anew from the tree
before the next eviction; until that succeeds victims are SGLang's own, the least recently used. Ranks that run the
same code on the same requests fail alike.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from sglang_marconi._core import UtilityOrder
from sglang_marconi.cache.stats import CacheStats
from sglang_marconi.compat import ComponentType

logger = logging.getLogger(__name__)

Node = Any  # UnifiedTreeNode; SGLang ships no types


class PolicyGuard:
    """Counts the policy's failures and logs the first of each kind."""

    def __init__(self, stats: CacheStats) -> None:
        self._stats = stats
        self._logged: set[str] = set()

    def failed(self, decision: str) -> None:
        """Note the exception being handled.

        Args:
            decision: what could not be decided.
        """
        self._stats.policy_failures += 1
        if decision not in self._logged:
            self._logged.add(decision)
            logger.exception("marconi: %s failed; serving goes on, later failures are counted only", decision)


class GuardedOrder:
    """The order of victims of one tree, which no failure of it keeps from being served.

    Args:
        order: follows the tree's events.
        tree: SGLang's tree core, what ``order`` is built from anew.
        guard: told of failures.
    """

    node_split: Callable[[int, int, int], None]
    node_removed: Callable[[int], None]
    state_admitted: Callable[[int], None]
    state_evicted: Callable[[int], None]
    set_state_locked: Callable[[int, bool], None]
    leaf_removed: Callable[[int], None]
    touch: Callable[[int], None]

    def __init__(self, order: UtilityOrder, tree: Any, guard: PolicyGuard) -> None:
        self._order = order
        self._tree = tree
        self._guard = guard
        #: It missed an event: it is told nothing more until it is built anew.
        self.is_stale = False
        for event in GuardedOrder.__annotations__:
            setattr(self, event, self._guarded(getattr(order, event)))
        self.leaf_added: Callable[[Node], None] = self._guarded(self._add_leaf)

    def _guarded(self, tell: Callable[..., None]) -> Callable[..., None]:
        def guarded(*event: Any) -> None:
            if self.is_stale:
                return
            try:
                tell(*event)
            except Exception:
                self._lose("following the tree")

        return guarded

    def _lose(self, decision: str) -> None:
        self.is_stale = True
        self._guard.failed(decision)

    def _add_leaf(self, node: Node) -> None:
        if node.id not in self._order:  # new, and a leaf from the start
            self._order.node_added(node.id, node.parent.id, len(node.key))
        self._order.leaf_added(node.id)

    def clear(self) -> None:
        """The tree is empty."""
        self.is_stale = False
        try:
            self._order.clear()
        except Exception:
            self._lose("clearing the order of victims")

    # ---- victims ----

    def state_victim(self) -> Node | None:
        """The node whose state is worth least, None when all are locked."""
        try:
            return self._victim(self._order.state_victim, self._can_lose_state)
        except Exception:
            self._lose("choosing a state to evict")
            return self._tree.lru_lists[ComponentType.MAMBA].get_lru_no_lock()

    def leaf_victim(self) -> Node | None:
        """The leaf whose KV and state are worth least, None when there is none."""
        leaves = self._tree.evictable_device_leaves
        try:
            return self._victim(self._order.leaf_victim, leaves.__contains__)
        except Exception:
            self._lose("choosing a leaf to evict")
            return min(leaves, key=lambda leaf: leaf.last_access_time, default=None)

    def _victim(self, choose: Callable[[], int | None], is_possible: Callable[[Node], bool]) -> Node | None:
        if self.is_stale:
            self._rebuild()
        node_id = choose()
        if node_id is None:
            return None
        node = self._tree.node_by_id(node_id)
        if not is_possible(node):
            raise RuntimeError(f"the order of victims chose node {node_id}, which the tree cannot evict")
        return node

    @staticmethod
    def _can_lose_state(node: Node) -> bool:
        state = node.component_data[ComponentType.MAMBA]
        return state.value is not None and state.lock_ref == 0

    def _rebuild(self) -> None:
        """Tell the order of every node as it is, the least recently used first."""
        self._order.clear()
        nodes, pending = [], list(self._tree.root_node.children.values())
        while pending:
            node = pending.pop()
            self._order.node_added(node.id, node.parent.id, len(node.key))
            nodes.append(node)
            pending.extend(node.children.values())
        for node in sorted(nodes, key=lambda node: node.last_access_time):
            state = node.component_data[ComponentType.MAMBA]
            tell = self._order.touch if state.value is None else self._order.state_admitted
            tell(node.id)
            self._order.set_state_locked(node.id, state.lock_ref > 0)
            if node in self._tree.evictable_device_leaves:
                self._order.leaf_added(node.id)
        self.is_stale = False
