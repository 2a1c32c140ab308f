// Marconi's order of victims in a tree with two pools: the least utility goes (Marconi, section 4.2).
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "marconi/pools/eviction_order.h"
#include "marconi/prefix_cost.h"
#include "marconi/utility_index.h"

namespace marconi {

// What the order of victims weighs, and how.
struct UtilityForm {
    double alpha = 0;
    RecencyForm recency = RecencyForm::kLinear;
    BytesForm bytes = BytesForm::kOwn;
};

// S = recency + alpha * efficiency over three sets of candidates:
//   states: nodes that hold a state and have at most one child;
//   shared states: nodes that hold a state and have more children, taken only when no other is left;
//   leaves.
// Time is logical: new nodes, admissions and uses advance it by one each. A node without a state has
// efficiency 0: no request can resume there.
class UtilityOrder final : public EvictionOrder {
  public:
    UtilityOrder(const PrefixCost& cost, const UtilityForm& form);

    [[nodiscard]] UtilityForm form() const { return {states_.alpha(), states_.recency_form(), bytes_}; }
    // O(1), but O(n log n) for another form of bytes.
    void set_form(const UtilityForm& form);
    // The same nodes, times and locks in another form.
    [[nodiscard]] std::unique_ptr<UtilityOrder> copy_in(const UtilityForm& form) const;

    // Takes up the nodes of a live tree, parents first, with its clock. Requires an empty order.
    void restore(const std::vector<LiveNode>& nodes, std::uint64_t clock);
    [[nodiscard]] std::uint64_t clock() const { return clock_; }

    void clear() override;
    void node_added(TreeNodeId node, TreeNodeId parent, std::uint32_t tokens) override;
    void node_split(TreeNodeId prefix, TreeNodeId suffix, std::uint32_t suffix_tokens) override;
    void node_removed(TreeNodeId node) override;
    void state_admitted(TreeNodeId node) override;
    void state_evicted(TreeNodeId node) override;
    void set_state_locked(TreeNodeId node, bool is_locked) override;
    void leaf_added(TreeNodeId node) override;
    void leaf_removed(TreeNodeId node) override;
    void touch_hit(TreeNodeId node) override { touch(node); }
    void touch_admitted(TreeNodeId node) override { touch(node); }
    // A hit touches only the node whose state is used (localised recency).
    void touch_walked(TreeNodeId /*node*/) override {}
    void touch(TreeNodeId node);
    std::optional<TreeNodeId> state_victim() override;
    std::optional<TreeNodeId> leaf_victim() override { return leaves_.victim(clock_ + 1); }

    // ---- for checks and metrics ----

    [[nodiscard]] std::size_t size() const { return slot_of_.size(); }
    [[nodiscard]] std::size_t states() const { return states_.size() + shared_states_.size(); }
    [[nodiscard]] bool contains(TreeNodeId node) const { return slot_of_.count(node) != 0; }
    [[nodiscard]] bool is_state_locked(TreeNodeId node) const { return record(node).is_locked; }
    [[nodiscard]] std::uint64_t last_access(TreeNodeId node) const { return record(node).last_access; }
    [[nodiscard]] double efficiency(TreeNodeId node) const { return efficiency(record(node)); }
    [[nodiscard]] const UtilityIndex& state_index() const { return states_; }
    [[nodiscard]] const UtilityIndex& shared_state_index() const { return shared_states_; }
    [[nodiscard]] const UtilityIndex& leaf_index() const { return leaves_; }

  private:
    using Slot = std::uint32_t;
    static constexpr Slot kRootSlot = 0;
    static constexpr Slot kNoSlot = UINT32_MAX;

    struct Record {
        TreeNodeId id = -1;
        std::uint64_t last_access = 0;
        std::uint32_t depth_tokens = 0;
        std::uint32_t children = 0;
        Slot parent = kNoSlot;
        Slot first_child = kNoSlot;
        Slot next_sibling = kNoSlot;
        Slot previous_sibling = kNoSlot;
        bool has_state = false;
        bool is_locked = false;
    };

    [[nodiscard]] Slot slot(TreeNodeId node) const;
    [[nodiscard]] Record& record(TreeNodeId node) { return records_[slot(node)]; }
    [[nodiscard]] const Record& record(TreeNodeId node) const { return records_[slot(node)]; }
    Slot take_slot(TreeNodeId node);
    void link(Slot child, Slot parent);
    void unlink(Slot child);
    void children_changed(Slot node);
    [[nodiscard]] UtilityIndex& index_of(const Record& node) {
        return node.children > 1 ? shared_states_ : states_;
    }
    void insert_state(const Record& node);
    void refresh_efficiency(const Record& node);
    // The nearest states below measure their efficiency from this node, or no longer do.
    void refresh_states_below(Slot node);
    [[nodiscard]] double efficiency(const Record& node) const;
    [[nodiscard]] std::uint32_t resume_depth_tokens(const Record& node) const;

    PrefixCost cost_;
    BytesForm bytes_;
    UtilityIndex states_;
    UtilityIndex shared_states_;
    UtilityIndex leaves_;
    std::vector<Record> records_;  // the root first
    std::vector<Slot> free_slots_;
    std::vector<Slot> pending_;
    std::unordered_map<TreeNodeId, Slot> slot_of_;
    std::uint64_t clock_ = 0;
};

}  // namespace marconi
