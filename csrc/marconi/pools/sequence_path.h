// A request's tokens as a way down the prefix tree of its trace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "marconi/trace/prefix_tree.h"

namespace marconi {

class SequencePath {
  public:
    SequencePath(const PrefixTree& prefixes, NodeId end) : prefixes_(&prefixes) {
        prefixes.path_to(end, nodes_);
    }

    [[nodiscard]] std::uint32_t tokens() const {
        return nodes_.empty() ? 0 : prefixes_->depth_tokens(nodes_.back());
    }
    [[nodiscard]] const std::vector<NodeId>& nodes() const { return nodes_; }

    // The prefix whose edge holds the token before `depth_tokens`, which must be in (0, tokens()]. Two
    // sequences share their first n tokens exactly when they have the same prefix there.
    [[nodiscard]] NodeId node_at(std::uint32_t depth_tokens) const { return *first_at(depth_tokens); }

    // How many of its first `tokens` tokens the path shares with a sequence that ends in `other`'s edge.
    [[nodiscard]] std::uint32_t shared_tokens(NodeId other, std::uint32_t tokens) const {
        while (other != kRoot && !contains(other)) {
            other = prefixes_->parent(other);
            tokens = std::min(tokens, prefixes_->depth_tokens(other));
        }
        return std::min(tokens, this->tokens());
    }

  private:
    [[nodiscard]] std::vector<NodeId>::const_iterator first_at(std::uint32_t depth_tokens) const {
        return std::lower_bound(
            nodes_.begin(), nodes_.end(), depth_tokens,
            [this](NodeId node, std::uint32_t depth) { return prefixes_->depth_tokens(node) < depth; });
    }

    [[nodiscard]] bool contains(NodeId node) const {
        const auto found = first_at(prefixes_->depth_tokens(node));
        return found != nodes_.end() && *found == node;
    }

    const PrefixTree* prefixes_;
    std::vector<NodeId> nodes_;
};

}  // namespace marconi
