#include "marconi/pools/utility_order.h"

#include <stdexcept>
#include <string>

namespace marconi {

UtilityOrder::UtilityOrder(const PrefixCost& cost, const UtilityForm& form)
    : cost_(cost),
      bytes_(form.bytes),
      states_(form.alpha, form.recency),
      shared_states_(form.alpha, form.recency),
      leaves_(form.alpha, form.recency),
      records_(1) {}

void UtilityOrder::set_form(const UtilityForm& form) {
    for (UtilityIndex* index : {&states_, &shared_states_, &leaves_}) {
        index->set_alpha(form.alpha);
        index->set_recency_form(form.recency);
    }
    if (form.bytes == bytes_) return;
    bytes_ = form.bytes;
    for (const Record& node : records_) refresh_efficiency(node);
}

std::unique_ptr<UtilityOrder> UtilityOrder::copy_in(const UtilityForm& form) const {
    auto copy = std::make_unique<UtilityOrder>(cost_, form);
    copy->records_ = records_;
    copy->free_slots_ = free_slots_;
    copy->slot_of_ = slot_of_;
    copy->clock_ = clock_;
    for (const Record& node : copy->records_) {
        if (node.has_state) copy->insert_state(node);
        if (leaves_.contains(node.id)) copy->leaf_added(node.id);
    }
    return copy;
}

void UtilityOrder::restore(const std::vector<LiveNode>& nodes, std::uint64_t clock) {
    for (const LiveNode& live : nodes) {
        node_added(live.id, live.parent, live.tokens);
        record(live.id).last_access = live.last_access;
    }
    for (const LiveNode& live : nodes) record(live.id).has_state = live.has_state;
    for (const Record& node : records_) {
        if (node.has_state) insert_state(node);
        if (node.id >= 0 && node.children == 0) leaf_added(node.id);
    }
    clock_ = clock;
}

void UtilityOrder::clear() {
    for (UtilityIndex* index : {&states_, &shared_states_, &leaves_}) index->clear();
    records_.assign(1, Record{});
    free_slots_.clear();
    slot_of_.clear();
}

// ---- structure ----

void UtilityOrder::node_added(TreeNodeId node, TreeNodeId parent, std::uint32_t tokens) {
    const auto above = slot_of_.find(parent);
    const Slot parent_slot = above == slot_of_.end() ? kRootSlot : above->second;
    const Slot added = take_slot(node);
    records_[added].last_access = ++clock_;
    records_[added].depth_tokens = records_[parent_slot].depth_tokens + tokens;
    link(added, parent_slot);
    children_changed(parent_slot);
}

void UtilityOrder::node_split(TreeNodeId prefix, TreeNodeId suffix, std::uint32_t suffix_tokens) {
    const Slot below = slot(suffix);
    const Slot above = take_slot(prefix);
    records_[above].last_access = records_[below].last_access;
    records_[above].depth_tokens = records_[below].depth_tokens - suffix_tokens;
    const Slot parent = records_[below].parent;
    unlink(below);
    link(above, parent);
    link(below, above);
    refresh_efficiency(records_[below]);
}

void UtilityOrder::node_removed(TreeNodeId node) {
    const Slot removed = slot(node);
    const Slot parent = records_[removed].parent;
    unlink(removed);
    records_[removed] = Record{};
    free_slots_.push_back(removed);
    slot_of_.erase(node);
    children_changed(parent);
}

void UtilityOrder::children_changed(Slot node) {
    const Record& changed = records_[node];
    if (!changed.has_state) return;
    UtilityIndex& other = changed.children > 1 ? states_ : shared_states_;
    if (other.contains(changed.id)) {
        other.remove(changed.id);
        insert_state(changed);
    } else {
        refresh_efficiency(changed);
    }
}

UtilityOrder::Slot UtilityOrder::slot(TreeNodeId node) const {
    const auto found = slot_of_.find(node);
    if (found == slot_of_.end()) throw UnknownNode("node " + std::to_string(node) + " is not in the tree");
    return found->second;
}

UtilityOrder::Slot UtilityOrder::take_slot(TreeNodeId node) {
    if (node < 0) throw std::invalid_argument("node id must be >= 0, got " + std::to_string(node));
    const Slot taken = free_slots_.empty() ? static_cast<Slot>(records_.size()) : free_slots_.back();
    if (!slot_of_.try_emplace(node, taken).second)
        throw std::invalid_argument("node " + std::to_string(node) + " is in the tree already");
    if (free_slots_.empty()) {
        records_.emplace_back();
    } else {
        free_slots_.pop_back();
    }
    records_[taken].id = node;
    return taken;
}

void UtilityOrder::link(Slot child, Slot parent) {
    const Slot next = records_[parent].first_child;
    records_[child].parent = parent;
    records_[child].previous_sibling = kNoSlot;
    records_[child].next_sibling = next;
    if (next != kNoSlot) records_[next].previous_sibling = child;
    records_[parent].first_child = child;
    ++records_[parent].children;
}

void UtilityOrder::unlink(Slot child) {
    const Record& leaving = records_[child];
    if (leaving.next_sibling != kNoSlot)
        records_[leaving.next_sibling].previous_sibling = leaving.previous_sibling;
    if (leaving.previous_sibling != kNoSlot) {
        records_[leaving.previous_sibling].next_sibling = leaving.next_sibling;
    } else {
        records_[leaving.parent].first_child = leaving.next_sibling;
    }
    --records_[leaving.parent].children;
}

// ---- states ----

void UtilityOrder::state_admitted(TreeNodeId node) {
    const Slot admitted = slot(node);
    Record& changed = records_[admitted];
    changed.last_access = ++clock_;
    changed.has_state = true;
    insert_state(changed);
    if (leaves_.contains(node)) leaves_.update(node, clock_, efficiency(changed));
    refresh_states_below(admitted);
}

void UtilityOrder::state_evicted(TreeNodeId node) {
    const Slot evicted = slot(node);
    Record& changed = records_[evicted];
    index_of(changed).remove(node);
    changed.has_state = false;
    if (leaves_.contains(node)) leaves_.set_efficiency(node, 0);
    refresh_states_below(evicted);
}

void UtilityOrder::set_state_locked(TreeNodeId node, bool is_locked) {
    Record& changed = record(node);
    changed.is_locked = is_locked;
    if (!changed.has_state) return;
    if (is_locked) {
        index_of(changed).lock(node);
    } else {
        index_of(changed).unlock(node);
    }
}

void UtilityOrder::insert_state(const Record& node) {
    UtilityIndex& index = index_of(node);
    index.insert(node.id, node.last_access, efficiency(node));
    if (node.is_locked) index.lock(node.id);
}

// ---- leaves ----

void UtilityOrder::leaf_added(TreeNodeId node) {
    const Record& leaf = record(node);
    leaves_.insert(node, leaf.last_access, efficiency(leaf));
}

void UtilityOrder::leaf_removed(TreeNodeId node) {
    leaves_.remove(node);
}

// ---- use ----

void UtilityOrder::touch(TreeNodeId node) {
    Record& touched = record(node);
    touched.last_access = ++clock_;
    if (touched.has_state) index_of(touched).touch(node, clock_);
    if (leaves_.contains(node)) leaves_.touch(node, clock_);
}

std::optional<TreeNodeId> UtilityOrder::state_victim() {
    const auto victim = states_.victim(clock_ + 1);
    return victim ? victim : shared_states_.victim(clock_ + 1);
}

// ---- efficiency ----

double UtilityOrder::efficiency(const Record& node) const {
    if (!node.has_state) return 0;
    const double depth = node.depth_tokens;
    const double saved_flops = cost_.prefill_flops(depth) - cost_.prefill_flops(resume_depth_tokens(node));
    const std::uint32_t own_tokens =
        node.children > 0 ? 0 : node.depth_tokens - records_[node.parent].depth_tokens;
    const double kv_tokens = bytes_ == BytesForm::kPath ? depth : own_tokens;
    const double bytes =
        static_cast<double>(cost_.state_bytes) + static_cast<double>(cost_.kv_bytes_per_token) * kv_tokens;
    return bytes > 0 ? saved_flops / bytes : 0;
}

std::uint32_t UtilityOrder::resume_depth_tokens(const Record& node) const {
    Slot above = node.parent;
    while (above != kRootSlot && !records_[above].has_state) above = records_[above].parent;
    return records_[above].depth_tokens;
}

void UtilityOrder::refresh_efficiency(const Record& node) {
    if (!node.has_state) return;
    const double now = efficiency(node);
    index_of(node).set_efficiency(node.id, now);
    if (leaves_.contains(node.id)) leaves_.set_efficiency(node.id, now);
}

void UtilityOrder::refresh_states_below(Slot node) {
    pending_.assign(1, node);
    while (!pending_.empty()) {
        const Slot above = pending_.back();
        pending_.pop_back();
        for (Slot below = records_[above].first_child; below != kNoSlot;
             below = records_[below].next_sibling) {
            if (records_[below].has_state) {
                refresh_efficiency(records_[below]);
            } else {
                pending_.push_back(below);
            }
        }
    }
}

}  // namespace marconi
