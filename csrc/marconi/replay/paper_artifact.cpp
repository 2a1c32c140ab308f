#include "marconi/replay/paper_artifact.h"

#include <algorithm>
#include <cmath>

namespace marconi {

PaperArtifactCache::PaperArtifactCache(const Trace& trace, ArtifactPolicy policy, double alpha,
                                       const LayerwiseCost& cost, std::int64_t capacity_bytes)
    : trace_(trace),
      policy_(policy),
      alpha_(alpha),
      cost_(cost),
      capacity_bytes_(capacity_bytes),
      owner_(trace.tree.size(), kNone),
      had_state_(trace.tree.size(), 0) {
    nodes_.push_back({});
    nodes_[0].end = kRoot;
    nodes_[0].parent = kNone;
}

Outcome PaperArtifactCache::serve(const Request& request) {
    Outcome outcome;
    trace_.tree.path_to(request.sequence_end, path_);
    std::size_t prompt_nodes = 0;
    if (request.prompt_end != kRoot) {
        const auto prompt_end = std::find(path_.begin(), path_.end(), request.prompt_end);
        prompt_nodes = static_cast<std::size_t>(prompt_end - path_.begin()) + 1;
    }
    count_tokens(request, look_up(prompt_nodes), prompt_nodes, outcome);
    insert(outcome);
    outcome.kv_bytes = kv_tokens_ * cost_.total.kv_bytes_per_token;
    outcome.state_bytes = states_ * cost_.total.state_bytes;
    outcome.is_cached = true;
    return outcome;
}

void PaperArtifactCache::count_tokens(const Request& request, const Match& match, std::size_t prompt_nodes,
                                      Outcome& outcome) const {
    outcome.hit_tokens = nodes_[match.node].depth_tokens;
    std::uint32_t once_usable = outcome.hit_tokens;
    for (std::size_t i = 0; i < prompt_nodes; ++i) {
        if (had_state_[path_[i]] != 0)
            once_usable = std::max(once_usable, trace_.tree.depth_tokens(path_[i]));
    }
    outcome.evicted_tokens = once_usable - outcome.hit_tokens;
    outcome.not_admitted_tokens = request.seen_tokens - once_usable;
    outcome.never_seen_tokens = request.prompt_tokens - request.seen_tokens;
    outcome.flops_saved = cost_.total.prefill_flops(outcome.hit_tokens);
}

// ---- look-up and insertion ----

PaperArtifactCache::Match PaperArtifactCache::match(std::size_t nodes) const {
    Match match{0};
    while (match.covered_nodes < nodes && owner_[path_[match.covered_nodes]] != kNone) ++match.covered_nodes;
    if (match.covered_nodes == 0) return match;
    const NodeId last = path_[match.covered_nodes - 1];
    match.covered_tokens = trace_.tree.depth_tokens(last);
    match.node = owner_[last];
    if (nodes_[match.node].end != last) {
        match.partial = match.node;
        match.node = nodes_[match.partial].parent;
    }
    return match;
}

PaperArtifactCache::Match PaperArtifactCache::look_up(std::size_t nodes) {
    ++clock_;
    const Match found = match(nodes);
    if (policy_ == ArtifactPolicy::kMarconi) {
        nodes_[found.node].last_access = clock_;
        return found;
    }
    for (Id node = found.node; node != kNone; node = nodes_[node].parent) nodes_[node].last_access = clock_;
    if (found.partial != kNone) nodes_[found.partial].last_access = clock_;
    return found;
}

void PaperArtifactCache::insert(Outcome& outcome) {
    ++clock_;
    const Match found = look_up(path_.size());
    const std::uint32_t tokens = path_.empty() ? 0 : trace_.tree.depth_tokens(path_.back());
    const std::int64_t new_states = found.partial == kNone ? 1 : 2;
    const std::int64_t bytes = new_states * cost_.total.state_bytes +
                               std::int64_t{tokens - found.covered_tokens} * cost_.total.kv_bytes_per_token;
    const std::int64_t held = states_ * cost_.total.state_bytes + kv_tokens_ * cost_.total.kv_bytes_per_token;
    const std::int64_t shortage = held + bytes - capacity_bytes_;
    if (shortage > 0) evict(shortage, outcome);

    // The eviction may have taken the path itself.
    const Match left = match(path_.size());
    const Id node = left.partial == kNone ? left.node : split(left);
    if (left.covered_tokens < tokens) {
        append_child(node, new_node(node, path_.back()));
        kv_tokens_ += tokens - left.covered_tokens;
    }
}

// ---- eviction ----

void PaperArtifactCache::evict(std::int64_t bytes, Outcome& outcome) {
    ++clock_;
    const bool by_utility = policy_ == ArtifactPolicy::kMarconi;
    while (bytes > 0 && nodes_[0].children > 0)
        bytes -= by_utility ? evict_by_utility(outcome) : evict_oldest_leaf(outcome);
}

// Of leaves of one age the last in pre-order goes.
std::int64_t PaperArtifactCache::evict_oldest_leaf(Outcome& outcome) {
    Id oldest = kNone;
    for (Id node = following(0); node != kNone; node = following(node)) {
        const bool is_leaf = nodes_[node].children == 0;
        if (is_leaf && (oldest == kNone || nodes_[node].last_access <= nodes_[oldest].last_access))
            oldest = node;
    }
    ++outcome.leaf_victims;
    const std::int64_t freed = cost_.total.state_bytes + edge_bytes(nodes_[oldest]);
    remove_leaf(oldest);
    return freed;
}

// alpha E' + R' over the nodes with at most one child, both min-max normalised, 1 where all are equal; the
// first minimum in pre-order goes. Slip: a leaf is credited with the edge of the last candidate instead of
// its own.
std::int64_t PaperArtifactCache::evict_by_utility(Outcome& outcome) {
    candidates_.clear();
    recency_.clear();
    double min_efficiency = HUGE_VAL;
    double max_efficiency = -HUGE_VAL;
    std::uint64_t oldest = UINT64_MAX;
    std::uint64_t newest = 0;
    for (Id id = following(0); id != kNone; id = following(id)) {
        const Node& node = nodes_[id];
        if (node.children > 1) continue;
        candidates_.push_back(id);
        recency_.push_back(1.0 / static_cast<double>(clock_ - node.last_access));
        min_efficiency = std::min(min_efficiency, node.efficiency);
        max_efficiency = std::max(max_efficiency, node.efficiency);
        oldest = std::min(oldest, node.last_access);
        newest = std::max(newest, node.last_access);
    }
    const double min_recency = 1.0 / static_cast<double>(clock_ - oldest);
    const double max_recency = 1.0 / static_cast<double>(clock_ - newest);
    const auto normalised = [](double value, double low, double high) {
        return low == high ? 1.0 : (value - low) / (high - low);
    };
    Id victim = kNone;
    double least = HUGE_VAL;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
        const double utility =
            alpha_ * normalised(nodes_[candidates_[i]].efficiency, min_efficiency, max_efficiency) +
            normalised(recency_[i], min_recency, max_recency);
        if (victim != kNone && utility >= least) continue;
        least = utility;
        victim = candidates_[i];
    }
    if (nodes_[victim].children == 0) {
        ++outcome.leaf_victims;
        const std::int64_t credit = cost_.total.state_bytes + edge_bytes(nodes_[candidates_.back()]);
        remove_leaf(victim);
        return credit;
    }
    ++outcome.inner_victims;
    merge_into_child(victim);
    return cost_.total.state_bytes;
}

std::int64_t PaperArtifactCache::edge_bytes(const Node& node) const {
    return std::int64_t{node.depth_tokens - node.parent_tokens} * cost_.total.kv_bytes_per_token;
}

// Slip: every MLP layer subtracts the FLOPs of an attention layer over the parent's tokens.
void PaperArtifactCache::update_efficiency(Node& node) const {
    const double total = node.depth_tokens;
    const double parent = node.parent_tokens;
    const double flops =
        cost_.ssm_flops_per_token * (total - parent) +
        cost_.attention_layers * (cost_.attention_flops(total) - cost_.attention_flops(parent)) +
        cost_.mlp_layers * (cost_.mlp_flops_per_token * total - cost_.attention_flops(parent));
    const double bytes = static_cast<double>(cost_.total.state_bytes) +
                         static_cast<double>(cost_.total.kv_bytes_per_token) * total;
    node.efficiency = bytes > 0 ? flops / bytes : 0;
}

// ---- the tree ----

PaperArtifactCache::Id PaperArtifactCache::new_node(Id parent, NodeId end) {
    Id id = 0;
    if (free_.empty()) {
        id = static_cast<Id>(nodes_.size());
        nodes_.emplace_back();
    } else {
        id = free_.back();
        free_.pop_back();
    }
    Node& node = nodes_[id] = {};
    node.end = end;
    node.parent = parent;
    node.parent_tokens = nodes_[parent].depth_tokens;
    node.depth_tokens = trace_.tree.depth_tokens(end);
    node.last_access = clock_;
    update_efficiency(node);
    own(id);
    had_state_[end] = 1;
    ++states_;
    return id;
}

// The upper part is a new node in the place of the whole.
PaperArtifactCache::Id PaperArtifactCache::split(const Match& match) {
    const Id lower = match.partial;
    const Id upper = new_node(match.node, path_[match.covered_nodes - 1]);
    replace_child(lower, upper);
    nodes_[lower].parent = upper;
    nodes_[lower].parent_tokens = nodes_[upper].depth_tokens;
    update_efficiency(nodes_[lower]);
    append_child(upper, lower);
    return upper;
}

void PaperArtifactCache::remove_leaf(Id leaf) {
    const Node& node = nodes_[leaf];
    for (NodeId covered = node.end; owner_[covered] == leaf; covered = trace_.tree.parent(covered))
        owner_[covered] = kNone;
    kv_tokens_ -= node.depth_tokens - node.parent_tokens;
    --states_;
    Node& parent = nodes_[node.parent];
    --parent.children;
    (node.previous == kNone ? parent.first_child : nodes_[node.previous].next) = node.next;
    (node.next == kNone ? parent.last_child : nodes_[node.next].previous) = node.previous;
    free_.push_back(leaf);
}

// The only child takes the node's edge and place, and the later time stamp.
void PaperArtifactCache::merge_into_child(Id id) {
    const Node& node = nodes_[id];
    const Id child = node.first_child;
    Node& merged = nodes_[child];
    merged.parent = node.parent;
    merged.parent_tokens = node.parent_tokens;
    merged.last_access = std::max(merged.last_access, node.last_access);
    update_efficiency(merged);
    replace_child(id, child);
    for (NodeId covered = node.end; owner_[covered] == id; covered = trace_.tree.parent(covered))
        owner_[covered] = child;
    --states_;
    free_.push_back(id);
}

void PaperArtifactCache::append_child(Id parent, Id child) {
    Node& above = nodes_[parent];
    nodes_[child].previous = above.last_child;
    nodes_[child].next = kNone;
    (above.last_child == kNone ? above.first_child : nodes_[above.last_child].next) = child;
    above.last_child = child;
    ++above.children;
}

void PaperArtifactCache::replace_child(Id child, Id replacement) {
    const Node& old = nodes_[child];
    Node& node = nodes_[replacement];
    node.previous = old.previous;
    node.next = old.next;
    Node& parent = nodes_[node.parent];
    (old.previous == kNone ? parent.first_child : nodes_[old.previous].next) = replacement;
    (old.next == kNone ? parent.last_child : nodes_[old.next].previous) = replacement;
}

// Takes over the trace's nodes from the node's end up to its parent's.
void PaperArtifactCache::own(Id id) {
    const NodeId above = nodes_[nodes_[id].parent].end;
    for (NodeId covered = nodes_[id].end; covered != above; covered = trace_.tree.parent(covered))
        owner_[covered] = id;
}

PaperArtifactCache::Id PaperArtifactCache::following(Id node) const {
    if (nodes_[node].first_child != kNone) return nodes_[node].first_child;
    while (node != kNone && nodes_[node].next == kNone) node = nodes_[node].parent;
    return node == kNone ? kNone : nodes_[node].next;
}

}  // namespace marconi
