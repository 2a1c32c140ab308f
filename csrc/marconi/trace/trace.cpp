#include "marconi/trace/trace.h"

#include <algorithm>
#include <stdexcept>

namespace marconi {
namespace {

// Copies a tree with nodes at the multiples of the grid between a node and its parent.
class GridCut {
  public:
    GridCut(const PrefixTree& tree, std::uint32_t grid_tokens)
        : tree_(tree), grid_tokens_(grid_tokens), copy_of_(tree.size(), kNoNode) {
        copy_of_[kRoot] = kRoot;
    }

    NodeId copy(NodeId node) {
        pending_.clear();
        for (; copy_of_[node] == kNoNode; node = tree_.parent(node)) pending_.push_back(node);
        NodeId copied = copy_of_[node];
        for (; !pending_.empty(); pending_.pop_back()) {
            const NodeId next = pending_.back();
            copied = copy_edge(copied, tree_.depth_tokens(next));
            copy_of_[next] = copied;
        }
        return copied;
    }

    PrefixTree take() { return std::move(cut_); }

  private:
    NodeId copy_edge(NodeId parent, std::uint32_t depth_tokens) {
        std::uint64_t cut = (cut_.depth_tokens(parent) / grid_tokens_ + std::uint64_t{1}) * grid_tokens_;
        for (; cut < depth_tokens; cut += grid_tokens_)
            parent = cut_.add(parent, static_cast<std::uint32_t>(cut));
        return cut_.add(parent, depth_tokens);
    }

    const PrefixTree& tree_;
    std::uint32_t grid_tokens_;
    std::vector<NodeId> copy_of_;
    std::vector<NodeId> pending_;
    PrefixTree cut_;
};

}  // namespace

std::uint64_t Trace::prompt_tokens() const {
    std::uint64_t sum = 0;
    for (const Request& request : requests) sum += request.prompt_tokens;
    return sum;
}

std::size_t Trace::memory_bytes() const {
    return tree.memory_bytes() + requests.capacity() * sizeof(Request);
}

void note_seen_tokens(Trace& trace) {
    std::vector<std::uint8_t> is_seen(trace.tree.size(), 0);
    is_seen[kRoot] = 1;
    for (Request& request : trace.requests) {
        NodeId node = request.prompt_end;
        while (is_seen[node] == 0) node = trace.tree.parent(node);
        request.seen_tokens = trace.tree.depth_tokens(node);
        for (node = request.sequence_end; is_seen[node] == 0; node = trace.tree.parent(node))
            is_seen[node] = 1;
    }
}

Trace cut_at_grid(const Trace& trace, std::uint32_t grid_tokens) {
    if (grid_tokens == 0) throw std::invalid_argument("grid_tokens must be > 0");
    GridCut cut(trace.tree, grid_tokens);
    Trace result;
    result.requests = trace.requests;
    for (Request& request : result.requests) {
        request.prompt_end = cut.copy(request.prompt_end);
        request.sequence_end = cut.copy(request.sequence_end);
    }
    result.tree = cut.take();
    return result;
}

}  // namespace marconi
