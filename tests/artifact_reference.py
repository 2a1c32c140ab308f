"""The simulator of Marconi's authors in plain Python, from its description: the specification of the preset."""

from __future__ import annotations

from dataclasses import dataclass, field

from sglang_marconi.cost import LayerwiseCost

Tokens = tuple[int, ...]


@dataclass(eq=False)
class Node:
    parent: Node | None
    edge: Tokens
    last_access: int
    children: dict[int, Node] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        return len(self.edge) + (self.parent.depth if self.parent else 0)


def shared(a: Tokens, b: Tokens) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


class ArtifactReference:
    """``alpha`` None is SGLang+."""

    def __init__(self, capacity_bytes: int, alpha: float | None, cost: LayerwiseCost) -> None:
        self.capacity_bytes, self.alpha, self.cost = capacity_bytes, alpha, cost
        self.root = Node(None, (), 0)
        self.clock = 0
        self.leaf_victims = self.inner_victims = 0

    def nodes(self, below: Node | None = None) -> list[Node]:
        """In pre-order, without the root."""
        children = (below or self.root).children.values()
        return [node for child in children for node in (child, *self.nodes(child))]

    def held_bytes(self) -> int:
        total = self.cost.total
        return sum(total.state_bytes + total.kv_bytes_per_token * len(n.edge) for n in self.nodes())

    def match(self, tokens: Tokens) -> tuple[list[Node], Node | None, int]:
        """Nodes matched whole, a child matched in part, tokens matched."""
        path, node, depth = [], self.root, 0
        while depth < len(tokens) and tokens[depth] in node.children:
            child = node.children[tokens[depth]]
            length = shared(child.edge, tokens[depth:])
            depth += length
            if length < len(child.edge):
                return path, child, depth
            path.append(child)
            node = child
        return path, None, depth

    def look_up(self, tokens: Tokens) -> tuple[list[Node], Node | None, int]:
        self.clock += 1
        path, partial, depth = self.match(tokens)
        touched = path[-1:] if self.alpha is not None else [*path, *([partial] if partial else [])]
        for node in touched:
            node.last_access = self.clock
        return path, partial, depth

    def serve(self, prompt: Tokens, reply: Tokens) -> int:
        path, _, _ = self.look_up(prompt)
        hit = path[-1].depth if path else 0
        self.insert(prompt + reply)
        return hit

    def insert(self, tokens: Tokens) -> None:
        self.clock += 1
        _, partial, depth = self.look_up(tokens)
        total = self.cost.total
        asked = (2 if partial else 1) * total.state_bytes + total.kv_bytes_per_token * (len(tokens) - depth)
        shortage = self.held_bytes() + asked - self.capacity_bytes
        if shortage > 0:
            self.clock += 1
            while shortage > 0 and self.root.children:
                shortage -= self.evict_leaf() if self.alpha is None else self.evict_by_utility(self.alpha)
        path, partial, depth = self.match(tokens)
        node = path[-1] if path else self.root
        if partial:
            split = shared(partial.edge, tokens[node.depth :])
            upper = Node(node, partial.edge[:split], self.clock)
            node.children[upper.edge[0]] = upper
            partial.parent, partial.edge = upper, partial.edge[split:]
            upper.children[partial.edge[0]] = partial
            node = upper
        if depth < len(tokens):
            node.children[tokens[depth]] = Node(node, tokens[depth:], self.clock)

    def evict_leaf(self) -> int:
        leaves = [node for node in self.nodes() if not node.children]
        victim = min(reversed(leaves), key=lambda node: node.last_access)
        return self.remove(victim, victim)

    def remove(self, leaf: Node, credited: Node) -> int:
        assert leaf.parent is not None
        del leaf.parent.children[leaf.edge[0]]
        self.leaf_victims += 1
        return self.cost.total.state_bytes + self.cost.total.kv_bytes_per_token * len(credited.edge)

    def efficiency(self, node: Node) -> float:
        cost, total = self.cost, node.depth
        parent = total - len(node.edge)

        def attention(tokens: int) -> float:
            return cost.attention_linear_flops * tokens + cost.attention_quadratic_flops * tokens**2

        flops = cost.ssm_flops_per_token * len(node.edge)
        flops += cost.attention_layers * (attention(total) - attention(parent))
        flops += cost.mlp_layers * (cost.mlp_flops_per_token * total - attention(parent))
        return flops / (cost.total.state_bytes + cost.total.kv_bytes_per_token * total)

    def evict_by_utility(self, alpha: float) -> int:
        candidates = [node for node in self.nodes() if len(node.children) <= 1]

        def normalised(values: list[float]) -> list[float]:
            low, high = min(values), max(values)
            return [1.0 if low == high else (value - low) / (high - low) for value in values]

        recencies = normalised([1 / (self.clock - node.last_access) for node in candidates])
        efficiencies = normalised([self.efficiency(node) for node in candidates])
        utilities = [alpha * e + r for e, r in zip(efficiencies, recencies, strict=True)]
        victim = candidates[utilities.index(min(utilities))]
        if not victim.children:
            return self.remove(victim, candidates[-1])
        (child,) = victim.children.values()
        assert victim.parent is not None
        child.parent, child.edge = victim.parent, victim.edge + child.edge
        child.last_access = max(child.last_access, victim.last_access)
        victim.parent.children[child.edge[0]] = child
        self.inner_victims += 1
        return self.cost.total.state_bytes
