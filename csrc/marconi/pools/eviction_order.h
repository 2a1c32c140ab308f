// What an order of victims is told about a radix tree with two pools, and what it is asked.
#pragma once

#include <cstdint>
#include <optional>

namespace marconi {

// Ids are the tree's own: >= 0, rising in the order in which nodes are made.
using TreeNodeId = std::int64_t;

// A node of a live tree, as a window of requests starts from it.
struct LiveNode {
    TreeNodeId id;
    TreeNodeId parent;
    std::uint32_t tokens;  // of its edge
    std::uint64_t last_access;
    bool has_state;
};

// SGLang's tree, live or simulated. A node holds KV for its edge and may hold a state at its end. A leaf here
// is a node without children that no request uses. Calls that name an unknown node throw UnknownNode; an
// unknown parent is the root, of which the order holds nothing.
class EvictionOrder {
  public:
    EvictionOrder() = default;
    EvictionOrder(const EvictionOrder&) = delete;
    EvictionOrder& operator=(const EvictionOrder&) = delete;
    virtual ~EvictionOrder() = default;

    // Forgets every node; the clock goes on.
    virtual void clear() = 0;

    // ---- structure ----

    // `node` is new, without children, `tokens` below `parent`.
    virtual void node_added(TreeNodeId node, TreeNodeId parent, std::uint32_t tokens) = 0;
    // `prefix` is a new node above `suffix`, which keeps `suffix_tokens` of its edge, its state and children.
    virtual void node_split(TreeNodeId prefix, TreeNodeId suffix, std::uint32_t suffix_tokens) = 0;
    // `node` left the tree without children, state and leaf entry.
    virtual void node_removed(TreeNodeId node) = 0;

    // ---- states ----

    virtual void state_admitted(TreeNodeId node) = 0;
    virtual void state_evicted(TreeNodeId node) = 0;
    // Requests took, or the last one released, the node for its state; it may hold none.
    virtual void set_state_locked(TreeNodeId node, bool is_locked) = 0;

    // ---- leaves ----

    virtual void leaf_added(TreeNodeId node) = 0;
    virtual void leaf_removed(TreeNodeId node) = 0;

    // ---- use ----

    // A look-up found the node's state, the deepest on its way.
    virtual void touch_hit(TreeNodeId node) = 0;
    // A request's state came to a node that holds one.
    virtual void touch_admitted(TreeNodeId node) = 0;
    // An insert walks into the node, before it splits it.
    virtual void touch_walked(TreeNodeId node) = 0;

    // ---- victims ----

    // The node whose state goes next, none when all are locked.
    [[nodiscard]] virtual std::optional<TreeNodeId> state_victim() = 0;
    // The leaf whose KV and state go next.
    [[nodiscard]] virtual std::optional<TreeNodeId> leaf_victim() = 0;
};

}  // namespace marconi
