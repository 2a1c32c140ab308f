// A path-compressed radix tree over tokens or block hashes, in flat arenas.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "marconi/trace/prefix_tree.h"

namespace marconi {

template <typename Unit>
struct UnitSpan {
    const Unit* data;
    std::size_t size;

    [[nodiscard]] bool empty() const { return size == 0; }
    [[nodiscard]] UnitSpan from(std::size_t offset) const { return {data + offset, size - offset}; }
};

// How many leading units two spans share.
template <typename Unit>
std::size_t common_prefix(UnitSpan<Unit> a, UnitSpan<Unit> b) {
    constexpr std::size_t kBlock = 256 / sizeof(Unit);
    const std::size_t size = std::min(a.size, b.size);
    std::size_t i = 0;
    while (i + kBlock <= size && std::memcmp(a.data + i, b.data + i, kBlock * sizeof(Unit)) == 0) i += kBlock;
    while (i < size && a.data[i] == b.data[i]) ++i;
    return i;
}

// Only grows: a node keeps its id, and the id stands for the same prefix, when its edge is split.
template <typename Unit>
class RadixTree {
  public:
    struct Match {
        NodeId node;  // whose edge the match ends in
        std::uint32_t depth;
    };

    RadixTree() { nodes_.push_back({0, 0, kNoNode}); }

    [[nodiscard]] std::size_t size() const { return nodes_.size(); }
    [[nodiscard]] NodeId parent(NodeId node) const { return nodes_[node].parent; }
    // In units from the root.
    [[nodiscard]] std::uint32_t depth(NodeId node) const { return nodes_[node].depth; }

    // The longest prefix of `units` that the tree holds.
    [[nodiscard]] Match match(UnitSpan<Unit> units) const {
        Match at{kRoot, 0};
        while (true) {
            const std::size_t shared = shared_with_edge(at, units);
            at.depth += static_cast<std::uint32_t>(shared);
            units = units.from(shared);
            if (units.empty() || at.depth < nodes_[at.node].depth) return at;
            const NodeId child = find_child(at.node, units.data[0]);
            if (child == kNoNode) return at;
            at.node = child;
        }
    }

    // The node at depth `depth` of `below`'s prefix; an edge that runs through it is split.
    // Requires depth <= depth(below).
    NodeId node_at(NodeId below, std::uint32_t depth) {
        while (below != kRoot && nodes_[nodes_[below].parent].depth >= depth) below = nodes_[below].parent;
        return nodes_[below].depth == depth ? below : split(below, depth);
    }

    // The node that ends the prefix of `from` followed by `units`.
    NodeId extend(NodeId from, UnitSpan<Unit> units) {
        Match at{from, nodes_[from].depth};
        while (!units.empty()) {
            const NodeId child = find_child(at.node, units.data[0]);
            if (child == kNoNode) return add_leaf(at.node, units);
            at.node = child;
            const std::size_t shared = shared_with_edge(at, units);
            at.depth += static_cast<std::uint32_t>(shared);
            units = units.from(shared);
            if (at.depth < nodes_[child].depth) at.node = split(child, at.depth);
        }
        return at.node;
    }

    [[nodiscard]] std::size_t memory_bytes() const {
        return nodes_.capacity() * sizeof(Node) + units_.capacity() * sizeof(Unit) +
               slots_.capacity() * sizeof(NodeId);
    }

  private:
    struct Node {
        std::size_t first_unit;  // of its edge, in units_
        std::uint32_t depth;
        NodeId parent;
    };

    [[nodiscard]] std::uint32_t edge_start(NodeId node) const {
        return node == kRoot ? 0 : nodes_[nodes_[node].parent].depth;
    }

    [[nodiscard]] std::size_t shared_with_edge(Match at, UnitSpan<Unit> units) const {
        const Node& node = nodes_[at.node];
        const std::size_t offset = node.first_unit + (at.depth - edge_start(at.node));
        return common_prefix<Unit>({units_.data() + offset, node.depth - at.depth}, units);
    }

    NodeId add_leaf(NodeId parent, UnitSpan<Unit> units) {
        if (units.size > UINT32_MAX - nodes_[parent].depth) throw std::length_error("a prefix is too long");
        const std::size_t first_unit = units_.size();
        units_.insert(units_.end(), units.data, units.data + units.size);
        return add_node({first_unit, nodes_[parent].depth + static_cast<std::uint32_t>(units.size), parent});
    }

    // The upper part becomes a new node, so that `node` still ends the same prefix.
    NodeId split(NodeId node, std::uint32_t depth) {
        const Node whole = nodes_[node];
        const std::uint32_t upper = depth - edge_start(node);
        const auto id = static_cast<NodeId>(nodes_.size());
        if (id == kNoNode) throw std::length_error("a tree holds too many nodes");
        nodes_.push_back({whole.first_unit, depth, whole.parent});
        slots_[slot_of(whole.parent, units_[whole.first_unit])] = id;
        nodes_[node].first_unit += upper;
        nodes_[node].parent = id;
        link(node);
        return id;
    }

    NodeId add_node(Node node) {
        const auto id = static_cast<NodeId>(nodes_.size());
        if (id == kNoNode) throw std::length_error("a tree holds too many nodes");
        nodes_.push_back(node);
        link(id);
        return id;
    }

    // ---- children by (parent, first unit): open addressing, nothing is ever removed ----

    [[nodiscard]] std::size_t slot_of(NodeId parent, Unit unit) const {
        std::uint64_t hash = (static_cast<std::uint64_t>(unit) ^ (std::uint64_t{parent} << 32)) * kHashFactor;
        hash ^= hash >> 29;
        hash = (hash + parent) * kHashFactor;
        std::size_t slot = (hash >> 20) & (slots_.size() - 1);
        while (slots_[slot] != kNoNode) {
            const Node& node = nodes_[slots_[slot]];
            if (node.parent == parent && units_[node.first_unit] == unit) break;
            slot = (slot + 1) & (slots_.size() - 1);
        }
        return slot;
    }

    [[nodiscard]] NodeId find_child(NodeId parent, Unit unit) const {
        return slots_.empty() ? kNoNode : slots_[slot_of(parent, unit)];
    }

    void link(NodeId node) {
        if (2 * ++linked_ > slots_.size()) {
            slots_.assign(std::max<std::size_t>(16, 2 * slots_.size()), kNoNode);
            for (NodeId id = 1; id < nodes_.size(); ++id) place(id);
        } else {
            place(node);
        }
    }

    void place(NodeId node) { slots_[slot_of(nodes_[node].parent, units_[nodes_[node].first_unit])] = node; }

    static constexpr std::uint64_t kHashFactor = 0x9E3779B97F4A7C15U;

    std::vector<Node> nodes_;
    std::vector<Unit> units_;
    std::vector<NodeId> slots_;
    std::size_t linked_ = 0;
};

}  // namespace marconi
