"""Which node to evict: the candidates of a radix tree, ordered by utility.

The tree tells this class what happens to its nodes; the class keeps three utility indexes
(Marconi, section 4.2; ``S = recency + alpha * efficiency``) and answers with victims:

- *states*: nodes that hold a state and have at most one child;
- *shared states*: nodes that hold a state and have more children, taken only when no other is left;
- *leaves*: nodes whose KV the tree may drop.

Time is logical: a counter that every use and every admission advances by one, so that all
tensor-parallel ranks see the same order.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from sglang_marconi._core import UtilityIndex
from sglang_marconi.compat import ComponentType
from sglang_marconi.config import MarconiConfig
from sglang_marconi.cost import PrefixCost

Node = Any  # UnifiedTreeNode; SGLang ships no types


@dataclasses.dataclass(slots=True)
class NodeRecord:
    """What the policy remembers of a node."""

    node: Node
    depth_tokens: int
    last_access: int


class EvictionCandidates:
    """The nodes of one radix tree that can give memory back, in the order of their utility."""

    def __init__(self, config: MarconiConfig, cost: PrefixCost) -> None:
        self._cost = cost
        self._counts_path_bytes = config.bytes == "path"
        self._states = UtilityIndex(config.alpha, config.recency)
        self._shared_states = UtilityIndex(config.alpha, config.recency)
        self._leaves = UtilityIndex(config.alpha, config.recency)
        self._records: dict[int, NodeRecord] = {}
        self._clock = 0

    def clear(self) -> None:
        """Forget every node; the clock goes on."""
        for index in (self._states, self._shared_states, self._leaves):
            index.clear()
        self._records.clear()

    @property
    def num_states(self) -> int:
        """States that the tree holds, locked ones included."""
        return self._states.size() + self._shared_states.size()

    # ---- victims ----

    def state_victim(self) -> Node | None:
        """The node whose state is worth least, or None when all are locked."""
        node_id = self._states.victim(self._clock + 1)
        if node_id is None:
            node_id = self._shared_states.victim(self._clock + 1)
        return None if node_id is None else self._records[node_id].node

    def leaf_victim(self) -> Node | None:
        """The leaf whose KV and state are worth least, or None when there is none."""
        node_id = self._leaves.victim(self._clock + 1)
        return None if node_id is None else self._records[node_id].node

    # ---- use ----

    def touch(self, node: Node) -> None:
        """Note that the node's state was used or admitted just now."""
        self._clock += 1
        record = self._records[node.id]
        record.last_access = self._clock
        for index in (self._states, self._shared_states, self._leaves):
            if index.contains(node.id):
                index.touch(node.id, self._clock)

    # ---- structure ----

    def node_added(self, node: Node) -> None:
        """A new leaf hangs below ``node.parent``."""
        self._record(node)
        self.children_changed(node.parent)

    def node_split(self, prefix: Node, suffix: Node) -> None:
        """``prefix`` is a new node above ``suffix``, which keeps its id, its state and its children."""
        record = self._records[suffix.id]
        depth = record.depth_tokens - len(suffix.key)
        self._records[prefix.id] = NodeRecord(prefix, depth, record.last_access)
        self._refresh_efficiency(suffix)

    def _record(self, node: Node) -> NodeRecord:
        """The node's record; a new node is as old as the clock."""
        record = self._records.get(node.id)
        if record is None:
            self._clock += 1
            parent = self._records.get(node.parent.id)
            depth = len(node.key) + (parent.depth_tokens if parent else 0)
            record = self._records[node.id] = NodeRecord(node, depth, self._clock)
        return record

    def node_removed(self, node: Node, parent: Node) -> None:
        """``node`` has left the tree; its state and its leaf entry went before."""
        del self._records[node.id]
        self.children_changed(parent)

    def children_changed(self, node: Node) -> None:
        """``node`` has got or lost a child: its bytes and its rank among the states may move."""
        if node.id not in self._records or not _has_state(node):
            return
        index, other = self._states, self._shared_states
        if len(node.children) > 1:
            index, other = other, index
        if other.contains(node.id):
            other.remove(node.id)
            self._insert_state(index, node)
        else:
            self._refresh_efficiency(node)

    # ---- states ----

    def state_admitted(self, node: Node) -> None:
        """``node`` holds a state from now on."""
        self._clock += 1
        record = self._records[node.id]
        record.last_access = self._clock
        self._insert_state(self._shared_states if len(node.children) > 1 else self._states, node)
        if self._leaves.contains(node.id):
            self._leaves.update(node.id, self._clock, self._efficiency(node))
        self._refresh_states_below(node)

    def state_evicted(self, node: Node) -> None:
        """``node`` no longer holds a state."""
        for index in (self._states, self._shared_states):
            if index.contains(node.id):
                index.remove(node.id)
        if self._leaves.contains(node.id):
            self._leaves.set_efficiency(node.id, 0.0)
        self._refresh_states_below(node)

    def state_lock_changed(self, node: Node) -> None:
        """A request took or released its hold on the node's state."""
        for index in (self._states, self._shared_states):
            if index.contains(node.id):
                _set_locked(index, node)

    # ---- leaves ----

    def leaf_added(self, node: Node) -> None:
        """``node`` is a leaf that no request uses."""
        record = self._record(node)
        efficiency = self._efficiency(node) if _has_state(node) else 0.0
        self._leaves.insert(node.id, record.last_access, efficiency)

    def leaf_removed(self, node: Node) -> None:
        """``node`` has children, is in use, or is gone."""
        self._leaves.remove(node.id)

    # ---- efficiency ----

    def _insert_state(self, index: UtilityIndex, node: Node) -> None:
        index.insert(node.id, self._records[node.id].last_access, self._efficiency(node))
        _set_locked(index, node)

    def _refresh_efficiency(self, node: Node) -> None:
        efficiency = self._efficiency(node)
        for index in (self._states, self._shared_states, self._leaves):
            if index.contains(node.id):
                index.set_efficiency(node.id, efficiency)

    def _efficiency(self, node: Node) -> float:
        """FLOPs that losing the node costs the next request, per byte that evicting it frees.

        A node without a state saves nothing: no request can resume there.
        """
        if not _has_state(node):
            return 0.0
        depth = self._records[node.id].depth_tokens
        flops = self._cost.prefill_flops(depth) - self._cost.prefill_flops(self._resume_depth(node))
        own_tokens = 0 if node.children else len(node.key)
        kv_tokens = depth if self._counts_path_bytes else own_tokens
        return flops / (self._cost.state_bytes + self._cost.kv_bytes_per_token * kv_tokens)

    def _resume_depth(self, node: Node) -> int:
        """Tokens up to the nearest ancestor that holds a state: where a request would resume."""
        ancestor = node.parent
        while ancestor.parent is not None:
            if _has_state(ancestor):
                return self._records[ancestor.id].depth_tokens
            ancestor = ancestor.parent
        return 0

    def _refresh_states_below(self, node: Node) -> None:
        """The nearest states below measure their efficiency from this node or no longer do."""
        pending = list(node.children.values())
        while pending:
            below = pending.pop()
            if _has_state(below):
                self._refresh_efficiency(below)
            else:
                pending.extend(below.children.values())


def _has_state(node: Node) -> bool:
    return node.component_data[ComponentType.MAMBA].value is not None


def _set_locked(index: UtilityIndex, node: Node) -> None:
    if node.component_data[ComponentType.MAMBA].lock_ref > 0:
        index.lock(node.id)
    else:
        index.unlock(node.id)
