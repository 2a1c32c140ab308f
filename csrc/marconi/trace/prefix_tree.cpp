#include "marconi/trace/prefix_tree.h"

#include <algorithm>

namespace marconi {

PrefixTree::PrefixTree(const std::vector<std::pair<NodeId, std::uint32_t>>& nodes)
    : first_child_(nodes.size(), kNoNode), next_sibling_(nodes.size(), kNoNode) {
    parent_.reserve(nodes.size());
    depth_tokens_.reserve(nodes.size());
    for (const auto& [parent, depth_tokens] : nodes) {
        parent_.push_back(parent);
        depth_tokens_.push_back(depth_tokens);
    }
    for (NodeId node = 1; node < size(); ++node) link(node);
}

NodeId PrefixTree::add(NodeId parent, std::uint32_t depth_tokens) {
    const auto node = static_cast<NodeId>(parent_.size());
    parent_.push_back(parent);
    depth_tokens_.push_back(depth_tokens);
    first_child_.push_back(kNoNode);
    next_sibling_.push_back(kNoNode);
    if (parent != kNoNode) link(node);
    return node;
}

void PrefixTree::link(NodeId node) {
    next_sibling_[node] = first_child_[parent_[node]];
    first_child_[parent_[node]] = node;
}

void PrefixTree::path_to(NodeId node, std::vector<NodeId>& path) const {
    path.clear();
    for (; node != kRoot; node = parent_[node]) path.push_back(node);
    std::reverse(path.begin(), path.end());
}

std::size_t PrefixTree::memory_bytes() const {
    return parent_.capacity() * sizeof(NodeId) + depth_tokens_.capacity() * sizeof(std::uint32_t) +
           first_child_.capacity() * sizeof(NodeId) + next_sibling_.capacity() * sizeof(NodeId);
}

}  // namespace marconi
