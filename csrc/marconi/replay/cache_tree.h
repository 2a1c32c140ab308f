// Which prefixes of a trace are cached: KV and states on its prefix tree, under one byte budget.
#pragma once

#include <cstdint>
#include <vector>

#include "marconi/prefix_cost.h"
#include "marconi/trace/prefix_tree.h"

namespace marconi {

// What a policy's order of victims depends on. Calls name nodes that hold a state.
class StateListener {
  public:
    StateListener() = default;
    StateListener(const StateListener&) = delete;
    StateListener& operator=(const StateListener&) = delete;
    virtual ~StateListener() = default;

    // The node got its state, or its children, the stateful ancestor or the bytes that it frees changed.
    virtual void state_changed(NodeId node) = 0;
    // The node's state is gone.
    virtual void state_removed(NodeId node) = 0;
};

// KV is cached for whole edges and only with the prefix before it. Every cached leaf holds a state: KV
// below the last state is of no use and goes with it.
class CacheTree {
  public:
    CacheTree(const PrefixTree& prefixes, const PrefixCost& cost);

    // At most one listener, which must outlive the tree's use.
    void listen(StateListener* listener) { listener_ = listener; }

    [[nodiscard]] const PrefixTree& prefixes() const { return prefixes_; }
    [[nodiscard]] const PrefixCost& cost() const { return cost_; }
    [[nodiscard]] bool has_kv(NodeId node) const { return has_kv_[node] != 0; }
    [[nodiscard]] bool has_state(NodeId node) const { return has_state_[node] != 0; }
    [[nodiscard]] std::uint32_t children(NodeId node) const { return children_[node]; }
    [[nodiscard]] std::int64_t kv_bytes() const { return kv_tokens_ * cost_.kv_bytes_per_token; }
    [[nodiscard]] std::int64_t state_bytes() const { return states_ * cost_.state_bytes; }
    [[nodiscard]] std::int64_t bytes() const { return kv_bytes() + state_bytes(); }

    // Depth of the nearest ancestor with a state, 0 without one.
    [[nodiscard]] std::uint32_t resume_depth_tokens(NodeId node) const;
    // What evicting the node's state gives back: of a leaf the KV back to the nearest ancestor that stays
    // too. Requires has_state(node).
    [[nodiscard]] std::int64_t freed_bytes(NodeId node) const;

    // Caches the KV of the nodes, which follow each other downwards from a cached node or the root.
    void add_kv(const NodeId* first, const NodeId* last);
    // Requires has_kv(node) and no state yet.
    void add_state(NodeId node);
    // Removes the state, and of a leaf the KV that no state is left for.
    void evict(NodeId node);

  private:
    // The node stays when the leaf below it goes.
    [[nodiscard]] bool stays(NodeId node) const {
        return node == kRoot || has_state(node) || children_[node] > 1;
    }
    void remove_kv_without_use(NodeId leaf);
    void attach(NodeId node);
    void detach(NodeId node);
    void children_changed(NodeId node, std::uint32_t before);
    // Tells the nearest states below the node.
    void states_below_changed(NodeId node);

    const PrefixTree& prefixes_;
    PrefixCost cost_;
    StateListener* listener_ = nullptr;
    std::vector<std::uint8_t> has_kv_;
    std::vector<std::uint8_t> has_state_;
    std::vector<std::uint32_t> children_;
    std::vector<NodeId> children_xor_;  // the child itself when there is one
    std::vector<NodeId> pending_;
    std::int64_t kv_tokens_ = 0;
    std::int64_t states_ = 0;
};

}  // namespace marconi
