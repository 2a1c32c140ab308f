// The prefixes of a trace as a tree without tokens: what replays walk instead of comparing prompts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace marconi {

using NodeId = std::uint32_t;
constexpr NodeId kRoot = 0;
constexpr NodeId kNoNode = UINT32_MAX;

// Every point where a prompt or a reply ends or two sequences part is a node's end; a parent's id may be
// higher than its child's. Flat arrays, so chains of any depth cost no stack.
class PrefixTree {
  public:
    PrefixTree() { add(kNoNode, 0); }
    // From (parent, depth in tokens) of every node, the root first.
    explicit PrefixTree(const std::vector<std::pair<NodeId, std::uint32_t>>& nodes);

    // Requires parent < size() and depth_tokens >= the parent's.
    NodeId add(NodeId parent, std::uint32_t depth_tokens);

    [[nodiscard]] std::size_t size() const { return parent_.size(); }
    [[nodiscard]] NodeId parent(NodeId node) const { return parent_[node]; }
    [[nodiscard]] std::uint32_t depth_tokens(NodeId node) const { return depth_tokens_[node]; }
    [[nodiscard]] std::uint32_t edge_tokens(NodeId node) const {
        return node == kRoot ? 0 : depth_tokens_[node] - depth_tokens_[parent_[node]];
    }
    [[nodiscard]] NodeId first_child(NodeId node) const { return first_child_[node]; }
    [[nodiscard]] NodeId next_sibling(NodeId node) const { return next_sibling_[node]; }

    // Nodes from below the root to `node`; `path` is overwritten.
    void path_to(NodeId node, std::vector<NodeId>& path) const;

    [[nodiscard]] std::size_t memory_bytes() const;

  private:
    void link(NodeId node);

    std::vector<NodeId> parent_;
    std::vector<std::uint32_t> depth_tokens_;
    std::vector<NodeId> first_child_;
    std::vector<NodeId> next_sibling_;
};

}  // namespace marconi
