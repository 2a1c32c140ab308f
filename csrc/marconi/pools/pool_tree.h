// SGLang's unified radix tree without tensors: which prefixes hold KV and states, and who uses them.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "marconi/pools/eviction_order.h"
#include "marconi/pools/sequence_path.h"
#include "marconi/trace/prefix_tree.h"

namespace marconi {

// Node ids are issued in the order in which the live tree makes its nodes; every event reaches the order of
// victims as the live tree reports it. Keys are cut to whole pages.
class PoolTree {
  public:
    static constexpr TreeNodeId kTreeRoot = 0;

    struct Match {
        TreeNodeId hit = kTreeRoot;  // the deepest node with a state
        std::uint32_t hit_tokens = 0;
        TreeNodeId last = kTreeRoot;  // where KV ends
        std::uint32_t kv_tokens = 0;
    };
    struct Inserted {
        TreeNodeId node;               // where the key ends
        std::uint32_t present_tokens;  // that the tree held before
    };

    // Both must outlive the tree.
    PoolTree(const PrefixTree& prefixes, EvictionOrder& order, std::uint32_t page_tokens);
    // The same tree, reporting to another order that knows it.
    PoolTree(const PoolTree& other, EvictionOrder& order) : PoolTree(other) { order_ = &order; }

    // Takes up a live tree of which the order knows already: the ids are 1, 2, ... in any order, parents come
    // first, and `ends` are the prefixes at which the nodes end. Requires an empty tree.
    void restore(const std::vector<LiveNode>& nodes, const std::vector<NodeId>& ends);

    // The longest cached part of the path's first `tokens` tokens; splits the edge in which it ends.
    Match match(const SequencePath& path, std::uint32_t tokens);
    // The same without a change.
    [[nodiscard]] Match peek(const SequencePath& path, std::uint32_t tokens) const;
    Inserted insert(const SequencePath& path, std::uint32_t tokens);

    // Requires none on the node yet.
    void add_state(TreeNodeId node);
    void remove_state(TreeNodeId node);
    // With its state. Requires is_leaf(node). Returns its KV tokens.
    std::uint32_t remove_leaf(TreeNodeId node);

    // A request uses the prefix: its KV stays, and the state at the node.
    void lock(TreeNodeId node);
    void unlock(TreeNodeId node);

    // No children and no user.
    [[nodiscard]] bool is_leaf(TreeNodeId node) const { return nodes_[node].is_leaf; }
    [[nodiscard]] bool has_state(TreeNodeId node) const { return nodes_[node].has_state; }
    [[nodiscard]] bool has_children(TreeNodeId node) const { return nodes_[node].children > 0; }
    [[nodiscard]] std::uint32_t depth_tokens(TreeNodeId node) const { return nodes_[node].depth_tokens; }

    // Depth and whether it holds a state, of every node but the root, rising. For checks.
    [[nodiscard]] std::vector<std::pair<std::uint32_t, bool>> shape() const;

    [[nodiscard]] std::int64_t kv_tokens() const { return kv_tokens_; }
    [[nodiscard]] std::int64_t locked_kv_tokens() const { return locked_kv_tokens_; }
    // Of the path to the node, what locking it would add to locked_kv_tokens().
    [[nodiscard]] std::int64_t unlocked_kv_tokens(TreeNodeId node) const;
    [[nodiscard]] std::int64_t states() const { return states_; }
    [[nodiscard]] std::int64_t locked_states() const { return locked_states_; }
    [[nodiscard]] bool is_locked(TreeNodeId node) const { return nodes_[node].users > 0; }

  private:
    PoolTree(const PoolTree&) = default;

    struct Node {
        TreeNodeId parent = kTreeRoot;
        NodeId below = kRoot;  // the trace's prefix in whose edge the node ends
        std::uint32_t depth_tokens = 0;
        std::uint32_t children = 0;
        std::uint32_t users = 0;              // requests anchored here
        std::uint32_t users_at_or_below = 0;  // that need the KV
        bool has_state = false;
        bool is_leaf = false;
        bool is_removed = false;
    };
    struct ChildKey {
        TreeNodeId parent;
        NodeId first;  // the trace's prefix that holds the last token of the edge's first page
        bool operator==(const ChildKey& other) const {
            return parent == other.parent && first == other.first;
        }
    };
    struct ChildKeyHash {
        std::size_t operator()(const ChildKey& key) const {
            return std::hash<std::uint64_t>()((static_cast<std::uint64_t>(key.parent) << 32) ^
                                              (key.first * std::uint64_t{0x9E3779B97F4A7C15U}));
        }
    };
    // How far a walk came: into `node`, whose edge is shared up to `tokens`.
    struct Step {
        TreeNodeId node;
        std::uint32_t tokens;
    };

    [[nodiscard]] std::uint32_t whole_pages(std::uint32_t tokens) const {
        return tokens / page_tokens_ * page_tokens_;
    }
    [[nodiscard]] std::uint32_t edge_tokens(TreeNodeId node) const {
        return nodes_[node].depth_tokens - nodes_[nodes_[node].parent].depth_tokens;
    }
    // The child of `node` that the path's first `tokens` tokens go on into, kTreeRoot without one.
    [[nodiscard]] Step step(TreeNodeId node, const SequencePath& path, std::uint32_t tokens) const;
    // The trace's prefix above or at `below` in whose edge `depth_tokens` lies.
    [[nodiscard]] NodeId prefix_at(NodeId below, std::uint32_t depth_tokens) const;
    TreeNodeId split(TreeNodeId node, std::uint32_t depth_tokens);
    TreeNodeId add_node(TreeNodeId parent, const SequencePath& path, std::uint32_t tokens);
    void update_leaf(TreeNodeId node);

    const PrefixTree& prefixes_;
    EvictionOrder* order_;
    std::uint32_t page_tokens_;
    std::vector<Node> nodes_;  // removed ones too: ids are never used again
    std::unordered_map<ChildKey, TreeNodeId, ChildKeyHash> children_;
    std::int64_t kv_tokens_ = 0;
    std::int64_t locked_kv_tokens_ = 0;
    std::int64_t states_ = 0;
    std::int64_t locked_states_ = 0;
};

}  // namespace marconi
