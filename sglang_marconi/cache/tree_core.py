"""SGLang's tree core, reporting to the eviction candidates what happens to its nodes."""

from __future__ import annotations

from typing import Any

from sglang_marconi.cache.candidates import EvictionCandidates, Node
from sglang_marconi.compat import ComponentType, UnifiedTreeCore

TREE_CORE_NAME = "marconi"


class ReportedLeaves(set[Node]):
    """The tree core's set of device leaves; every change of membership reaches the candidates."""

    def __init__(self, candidates: EvictionCandidates) -> None:
        super().__init__()
        self._candidates = candidates

    def add(self, node: Node) -> None:
        if node not in self:
            super().add(node)
            self._candidates.leaf_added(node)

    def discard(self, node: Node) -> None:
        if node in self:
            super().discard(node)
            self._candidates.leaf_removed(node)


class MarconiTreeCore(UnifiedTreeCore):
    """A radix tree whose leaves and children the eviction candidates follow."""

    def __init__(self, params: Any, components: dict[Any, Any]) -> None:
        self._candidates: EvictionCandidates = components[ComponentType.MAMBA].candidates
        super().__init__(params, components)

    def reset(self) -> None:
        super().reset()
        self._candidates.clear()
        self.evictable_device_leaves = ReportedLeaves(self._candidates)

    def _update_evictable_leaf_sets(self, node: Node) -> None:
        # Without a host tier every node's KV is on the device: a leaf has no children, and there are
        # no host leaves to keep.
        in_use = node.children or node is self.root_node or _is_locked(node)
        if in_use:
            self.evictable_device_leaves.discard(node)
        else:
            self.evictable_device_leaves.add(node)

    def _add_new_node(self, parent: Node, key: Any, value: Any, **attributes: Any) -> Node:
        node = super()._add_new_node(parent, key, value, **attributes)
        self._candidates.node_added(node)
        return node

    def _remove_leaf_from_parent(self, node: Node) -> None:
        parent = node.parent
        super()._remove_leaf_from_parent(node)
        self._candidates.node_removed(node, parent)


def _is_locked(node: Node) -> bool:
    data = node.component_data
    return bool(data[ComponentType.FULL].lock_ref or data[ComponentType.MAMBA].lock_ref)
