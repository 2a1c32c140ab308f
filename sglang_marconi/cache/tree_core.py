"""SGLang's tree core, reporting to the order of victims what happens to its nodes."""

from __future__ import annotations

from typing import Any

from sglang_marconi.cache.guard import GuardedOrder, Node
from sglang_marconi.compat import ComponentType, UnifiedTreeCore

TREE_CORE_NAME = "marconi"


class ReportedLeaves(set[Node]):
    """The tree core's set of device leaves; every change of membership reaches the order of victims."""

    def __init__(self, order: GuardedOrder) -> None:
        super().__init__()
        self._order = order

    def add(self, node: Node) -> None:
        if node not in self:
            super().add(node)
            self._order.leaf_added(node)

    def discard(self, node: Node) -> None:
        if node in self:
            super().discard(node)
            self._order.leaf_removed(node.id)


class MarconiTreeCore(UnifiedTreeCore):
    """A radix tree whose nodes, leaves and children the order of victims follows."""

    def __init__(self, params: Any, components: dict[Any, Any]) -> None:
        policy = components[ComponentType.MAMBA].policy
        self.order = GuardedOrder(policy.order, self, policy.guard)
        super().__init__(params, components)

    def reset(self) -> None:
        super().reset()
        self.order.clear()
        self.evictable_device_leaves = ReportedLeaves(self.order)

    def _update_evictable_leaf_sets(self, node: Node) -> None:
        # Without a host tier every node's KV is on the device: a leaf has no children, and there are
        # no host leaves to keep.
        in_use = node.children or node is self.root_node or _is_locked(node)
        if in_use:
            self.evictable_device_leaves.discard(node)
        else:
            self.evictable_device_leaves.add(node)

    def _remove_leaf_from_parent(self, node: Node) -> None:
        super()._remove_leaf_from_parent(node)
        self.order.node_removed(node.id)


def _is_locked(node: Node) -> bool:
    data = node.component_data
    return bool(data[ComponentType.FULL].lock_ref or data[ComponentType.MAMBA].lock_ref)
