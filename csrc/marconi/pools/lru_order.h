// The order in which SGLang 0.5.23's own unified radix cache evicts: least recently used.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "marconi/pools/eviction_order.h"
#include "marconi/utility_index.h"

namespace marconi {

// States in the order of their admission or last hit, whatever their children. Leaves in the order of their
// last access: look-ups touch the path to the state that they find, inserts what they walk through.
class LruOrder final : public EvictionOrder {
  public:
    void clear() override;
    void node_added(TreeNodeId node, TreeNodeId parent, std::uint32_t tokens) override;
    void node_split(TreeNodeId prefix, TreeNodeId suffix, std::uint32_t suffix_tokens) override;
    void node_removed(TreeNodeId node) override { records_.erase(node); }
    void state_admitted(TreeNodeId node) override;
    void state_evicted(TreeNodeId node) override { states_.remove(node); }
    void set_state_locked(TreeNodeId node, bool is_locked) override;
    void leaf_added(TreeNodeId node) override { leaves_.insert(node, record(node).last_access, 0); }
    void leaf_removed(TreeNodeId node) override { leaves_.remove(node); }
    void touch_hit(TreeNodeId node) override;
    void touch_admitted(TreeNodeId node) override;
    void touch_walked(TreeNodeId node) override { access(node, next_tick()); }
    std::optional<TreeNodeId> state_victim() override { return states_.victim(); }
    std::optional<TreeNodeId> leaf_victim() override { return leaves_.victim(); }

  private:
    // Time between two accesses: room to order the nodes of one path within it.
    static constexpr std::uint64_t kTick = std::uint64_t{1} << 24;

    struct Record {
        TreeNodeId parent;
        std::uint64_t last_access;
        bool is_locked = false;
    };

    [[nodiscard]] Record& record(TreeNodeId node);
    std::uint64_t next_tick() { return clock_ += kTick; }
    void access(TreeNodeId node, std::uint64_t time);

    UtilityIndex states_;  // with alpha 0: by time, then by id
    UtilityIndex leaves_;
    std::unordered_map<TreeNodeId, Record> records_;
    std::uint64_t clock_ = 0;
};

}  // namespace marconi
