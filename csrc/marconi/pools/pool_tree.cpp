#include "marconi/pools/pool_tree.h"

#include <algorithm>

namespace marconi {

PoolTree::PoolTree(const PrefixTree& prefixes, EvictionOrder& order, std::uint32_t page_tokens)
    : prefixes_(prefixes), order_(&order), page_tokens_(page_tokens), nodes_(1) {}

// ---- walks ----

PoolTree::Step PoolTree::step(TreeNodeId node, const SequencePath& path, std::uint32_t tokens) const {
    const std::uint32_t first_page_end = nodes_[node].depth_tokens + page_tokens_;
    if (first_page_end > tokens) return {kTreeRoot, 0};
    const auto found = children_.find({node, path.node_at(first_page_end)});
    if (found == children_.end()) return {kTreeRoot, 0};
    const Node& child = nodes_[found->second];
    const std::uint32_t shared = path.shared_tokens(child.below, child.depth_tokens);
    return {found->second, whole_pages(std::min(shared, tokens))};
}

PoolTree::Match PoolTree::peek(const SequencePath& path, std::uint32_t tokens) const {
    tokens = whole_pages(std::min(tokens, path.tokens()));
    Match match;
    for (Step next = step(kTreeRoot, path, tokens); next.node != kTreeRoot;
         next = step(next.node, path, tokens)) {
        match.last = next.node;
        match.kv_tokens = next.tokens;
        if (next.tokens < nodes_[next.node].depth_tokens) break;
        if (!has_state(next.node)) continue;
        match.hit = next.node;
        match.hit_tokens = next.tokens;
    }
    return match;
}

PoolTree::Match PoolTree::match(const SequencePath& path, std::uint32_t tokens) {
    Match match = peek(path, tokens);
    if (match.kv_tokens < nodes_[match.last].depth_tokens) match.last = split(match.last, match.kv_tokens);
    if (match.hit != kTreeRoot) order_->touch_hit(match.hit);
    return match;
}

PoolTree::Inserted PoolTree::insert(const SequencePath& path, std::uint32_t tokens) {
    tokens = whole_pages(std::min(tokens, path.tokens()));
    TreeNodeId node = kTreeRoot;
    for (Step next = step(node, path, tokens); next.node != kTreeRoot; next = step(node, path, tokens)) {
        order_->touch_walked(next.node);
        node = next.tokens < nodes_[next.node].depth_tokens ? split(next.node, next.tokens) : next.node;
    }
    const std::uint32_t present = nodes_[node].depth_tokens;
    if (present < tokens) node = add_node(node, path, tokens);
    return {node, present};
}

NodeId PoolTree::prefix_at(NodeId below, std::uint32_t depth_tokens) const {
    while (prefixes_.depth_tokens(prefixes_.parent(below)) >= depth_tokens) below = prefixes_.parent(below);
    return below;
}

// ---- structure ----

TreeNodeId PoolTree::split(TreeNodeId node, std::uint32_t depth_tokens) {
    const auto prefix = static_cast<TreeNodeId>(nodes_.size());
    const Node whole = nodes_[node];
    const std::uint32_t first_page_end = nodes_[whole.parent].depth_tokens + page_tokens_;
    Node upper;
    upper.parent = whole.parent;
    upper.below = prefix_at(whole.below, depth_tokens);
    upper.depth_tokens = depth_tokens;
    upper.children = 1;
    upper.users_at_or_below = whole.users_at_or_below;
    nodes_.push_back(upper);
    nodes_[node].parent = prefix;
    children_[{whole.parent, prefix_at(whole.below, first_page_end)}] = prefix;
    children_[{prefix, prefix_at(whole.below, depth_tokens + page_tokens_)}] = node;
    order_->node_split(prefix, node, whole.depth_tokens - depth_tokens);
    return prefix;
}

TreeNodeId PoolTree::add_node(TreeNodeId parent, const SequencePath& path, std::uint32_t tokens) {
    const auto added = static_cast<TreeNodeId>(nodes_.size());
    const std::uint32_t first_page_end = nodes_[parent].depth_tokens + page_tokens_;
    Node leaf;
    leaf.parent = parent;
    leaf.below = path.node_at(tokens);
    leaf.depth_tokens = tokens;
    nodes_.push_back(leaf);
    ++nodes_[parent].children;
    children_[{parent, path.node_at(first_page_end)}] = added;
    kv_tokens_ += edge_tokens(added);
    order_->node_added(added, parent, edge_tokens(added));
    update_leaf(added);
    update_leaf(parent);
    return added;
}

std::uint32_t PoolTree::remove_leaf(TreeNodeId node) {
    const std::uint32_t tokens = edge_tokens(node);
    const TreeNodeId parent = nodes_[node].parent;
    if (has_state(node)) remove_state(node);
    order_->leaf_removed(node);
    nodes_[node].is_leaf = false;
    nodes_[node].is_removed = true;
    children_.erase({parent, prefix_at(nodes_[node].below, nodes_[parent].depth_tokens + page_tokens_)});
    --nodes_[parent].children;
    kv_tokens_ -= tokens;
    order_->node_removed(node);
    update_leaf(parent);
    return tokens;
}

void PoolTree::update_leaf(TreeNodeId node) {
    Node& changed = nodes_[node];
    const bool is_leaf = node != kTreeRoot && changed.children == 0 && changed.users == 0;
    if (is_leaf == changed.is_leaf) return;
    changed.is_leaf = is_leaf;
    if (is_leaf) {
        order_->leaf_added(node);
    } else {
        order_->leaf_removed(node);
    }
}

std::vector<std::pair<std::uint32_t, bool>> PoolTree::shape() const {
    std::vector<std::pair<std::uint32_t, bool>> shape;
    for (std::size_t node = 1; node < nodes_.size(); ++node) {
        if (!nodes_[node].is_removed) shape.emplace_back(nodes_[node].depth_tokens, nodes_[node].has_state);
    }
    std::sort(shape.begin(), shape.end());
    return shape;
}

void PoolTree::restore(const std::vector<LiveNode>& nodes, const std::vector<NodeId>& ends) {
    nodes_.resize(nodes.size() + 1);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const LiveNode& live = nodes[i];
        Node& node = nodes_.at(static_cast<std::size_t>(live.id));
        node.parent = live.parent;
        node.below = ends[i];
        node.depth_tokens = nodes_[live.parent].depth_tokens + live.tokens;
        node.has_state = live.has_state;
        ++nodes_[live.parent].children;
        const std::uint32_t first_page_end = nodes_[live.parent].depth_tokens + page_tokens_;
        children_[{live.parent, prefix_at(ends[i], first_page_end)}] = live.id;
        kv_tokens_ += live.tokens;
        states_ += live.has_state ? 1 : 0;
    }
    for (std::size_t id = 1; id < nodes_.size(); ++id) nodes_[id].is_leaf = nodes_[id].children == 0;
}

// ---- states ----

void PoolTree::add_state(TreeNodeId node) {
    nodes_[node].has_state = true;
    ++states_;
    if (is_locked(node)) ++locked_states_;
    order_->state_admitted(node);
}

void PoolTree::remove_state(TreeNodeId node) {
    nodes_[node].has_state = false;
    --states_;
    order_->state_evicted(node);
}

// ---- users ----

void PoolTree::lock(TreeNodeId node) {
    if (node == kTreeRoot) return;
    if (nodes_[node].users++ == 0) {
        if (has_state(node)) ++locked_states_;
        order_->set_state_locked(node, true);
        update_leaf(node);
    }
    for (; node != kTreeRoot; node = nodes_[node].parent) {
        if (nodes_[node].users_at_or_below++ == 0) locked_kv_tokens_ += edge_tokens(node);
    }
}

void PoolTree::unlock(TreeNodeId node) {
    if (node == kTreeRoot) return;
    if (--nodes_[node].users == 0) {
        if (has_state(node)) --locked_states_;
        order_->set_state_locked(node, false);
        update_leaf(node);
    }
    for (; node != kTreeRoot; node = nodes_[node].parent) {
        if (--nodes_[node].users_at_or_below == 0) locked_kv_tokens_ -= edge_tokens(node);
    }
}

std::int64_t PoolTree::unlocked_kv_tokens(TreeNodeId node) const {
    std::int64_t tokens = 0;
    for (; node != kTreeRoot; node = nodes_[node].parent) {
        if (nodes_[node].users_at_or_below == 0) tokens += edge_tokens(node);
    }
    return tokens;
}

}  // namespace marconi
