#include "marconi/replay/cache_tree.h"

namespace marconi {

CacheTree::CacheTree(const PrefixTree& prefixes, const PrefixCost& cost)
    : prefixes_(prefixes),
      cost_(cost),
      has_kv_(prefixes.size(), 0),
      has_state_(prefixes.size(), 0),
      children_(prefixes.size(), 0),
      children_xor_(prefixes.size(), 0) {
    has_kv_[kRoot] = 1;
}

std::uint32_t CacheTree::resume_depth_tokens(NodeId node) const {
    do node = prefixes_.parent(node);
    while (node != kRoot && !has_state(node));
    return prefixes_.depth_tokens(node);
}

std::int64_t CacheTree::freed_bytes(NodeId node) const {
    if (children_[node] > 0) return cost_.state_bytes;
    NodeId kept = prefixes_.parent(node);
    while (!stays(kept)) kept = prefixes_.parent(kept);
    const std::int64_t tokens = prefixes_.depth_tokens(node) - prefixes_.depth_tokens(kept);
    return cost_.state_bytes + tokens * cost_.kv_bytes_per_token;
}

void CacheTree::add_kv(const NodeId* first, const NodeId* last) {
    for (const NodeId* node = first; node != last; ++node) {
        has_kv_[*node] = 1;
        kv_tokens_ += prefixes_.edge_tokens(*node);
        attach(*node);
    }
}

void CacheTree::add_state(NodeId node) {
    has_state_[node] = 1;
    ++states_;
    if (listener_ != nullptr) listener_->state_changed(node);
    states_below_changed(node);
}

void CacheTree::evict(NodeId node) {
    has_state_[node] = 0;
    --states_;
    if (listener_ != nullptr) listener_->state_removed(node);
    if (children_[node] == 0) {
        remove_kv_without_use(node);
    } else {
        states_below_changed(node);
    }
}

void CacheTree::remove_kv_without_use(NodeId leaf) {
    for (NodeId node = leaf; node != kRoot && !has_state(node) && children_[node] == 0;
         node = prefixes_.parent(node)) {
        has_kv_[node] = 0;
        kv_tokens_ -= prefixes_.edge_tokens(node);
        detach(node);
    }
}

void CacheTree::attach(NodeId node) {
    const NodeId parent = prefixes_.parent(node);
    children_xor_[parent] ^= node;
    children_changed(parent, children_[parent]++);
}

void CacheTree::detach(NodeId node) {
    const NodeId parent = prefixes_.parent(node);
    children_xor_[parent] ^= node;
    children_changed(parent, children_[parent]--);
}

void CacheTree::children_changed(NodeId node, std::uint32_t before) {
    if (listener_ == nullptr || node == kRoot) return;
    if (has_state(node)) return listener_->state_changed(node);
    // A leaf below frees KV up to here, or no longer only up to here.
    if ((before > 1) != (children_[node] > 1)) states_below_changed(node);
}

void CacheTree::states_below_changed(NodeId node) {
    if (listener_ == nullptr || children_[node] == 0) return;
    pending_.assign(1, node);
    while (!pending_.empty()) {
        const NodeId above = pending_.back();
        pending_.pop_back();
        const bool has_one = children_[above] == 1;
        NodeId below = has_one ? children_xor_[above] : prefixes_.first_child(above);
        for (; below != kNoNode; below = has_one ? kNoNode : prefixes_.next_sibling(below)) {
            if (!has_kv(below)) continue;
            if (has_state(below)) {
                listener_->state_changed(below);
            } else {
                pending_.push_back(below);
            }
        }
    }
}

}  // namespace marconi
