#include "marconi/hull_tree.h"

#include <algorithm>

#include "marconi/hull_cursor.h"

namespace marconi {

const Candidate& HullTree::oldest() const {
    Ref ref = root_;
    while (!is_block(ref)) ref = node(ref).older;
    return *block(ref).begin();
}

const Candidate& HullTree::minimum(const Direction& direction) const {
    HullCursor hull(*this, root_);
    while (!hull.is_vertex()) {
        const auto [older, newer] = hull.edge();
        if (direction.compare(older, newer) <= 0) {
            hull.keep_older();
        } else {
            hull.keep_newer();
        }
    }
    return hull.vertex();
}

void HullTree::insert(const Candidate& candidate) {
    if (root_ == kNothing) root_ = new_block();
    root_ = insert_below(root_, candidate);
    ++size_;
}

void HullTree::erase(const Candidate& candidate) {
    root_ = erase_below(root_, candidate);
    --size_;
}

void HullTree::clear() {
    *this = HullTree();
}

HullTree::Ref HullTree::insert_below(Ref ref, const Candidate& candidate) {
    if (is_block(ref)) return insert_into_block(ref, candidate);
    const bool in_newer = belongs_to_newer(node(ref), candidate);
    const Ref child = insert_below(in_newer ? node(ref).newer : node(ref).older, candidate);
    (in_newer ? node(ref).newer : node(ref).older) = child;
    update(ref, Change::kInserted, candidate, in_newer);
    return balanced(ref);
}

HullTree::Ref HullTree::insert_into_block(Ref ref, const Candidate& candidate) {
    if (block(ref).size() < HullBlock::kCapacity) {
        block(ref).insert(candidate);
        return ref;
    }
    const Ref newer = new_block();
    const int position = block(ref).position_of(candidate);
    // Time stamps mostly arrive in order: a full block that is appended to stays full.
    const bool appends = position == HullBlock::kCapacity;
    if (!appends) block(ref).split_into(block(newer), HullBlock::kCapacity / 2);
    const bool in_newer = position > HullBlock::kCapacity / 2;
    block(in_newer ? newer : ref).insert(candidate);
    return new_node(ref, newer);
}

HullTree::Ref HullTree::erase_below(Ref ref, const Candidate& candidate) {
    if (is_block(ref)) {
        block(ref).erase(candidate);
        if (block(ref).size() > 0) return ref;
        free_block(ref);
        return kNothing;
    }
    const bool in_newer = belongs_to_newer(node(ref), candidate);
    const Ref child = erase_below(in_newer ? node(ref).newer : node(ref).older, candidate);
    if (child == kNothing) {
        free_node(ref);
        return in_newer ? node(ref).older : node(ref).newer;
    }
    (in_newer ? node(ref).newer : node(ref).older) = child;
    update(ref, Change::kErased, candidate, in_newer);
    return merged_or_balanced(ref);
}

bool HullTree::belongs_to_newer(const Node& node, const Candidate& candidate) const {
    const Summary& newer = summary_of(node.newer);
    return !candidate.precedes(newer.min_last_access, newer.first_id);
}

bool HullTree::bridge_breaks(const Node& node, Change change, const Candidate& candidate,
                             bool in_newer) const {
    const Vertex& place = candidate;
    if (change == Change::kErased) return place == (in_newer ? node.bridge.newer : node.bridge.older);
    return side_of(node.bridge, place) < 0 || (!in_newer && place == node.bridge.newer);
}

HullTree::Hull HullTree::hull_of(const Node& node) const {
    const Summary& older = summary_of(node.older);
    const Summary& newer = summary_of(node.newer);
    if (older.min_efficiency <= newer.min_efficiency) return Hull::kOlderOnly;
    const bool same_start = older.min_last_access == newer.min_last_access;
    if (same_start && newer.first_efficiency < older.min_efficiency) return Hull::kNewerOnly;
    return Hull::kBridged;
}

void HullTree::update_summary(Node& node) {
    node.height = static_cast<std::uint8_t>(1 + std::max(height_of(node.older), height_of(node.newer)));
    node.summary = combine(summary_of(node.older), summary_of(node.newer));
}

void HullTree::update(Ref ref, Change change, const Candidate& candidate, bool in_newer) {
    Node& changed = node(ref);
    update_summary(changed);
    const Hull before = changed.hull;
    changed.hull = hull_of(changed);
    if (changed.hull != Hull::kBridged) return;
    if (before != Hull::kBridged || bridge_breaks(changed, change, candidate, in_newer)) {
        changed.bridge = find_bridge(*this, changed.older, changed.newer);
    }
}

void HullTree::update_from_scratch(Ref ref) {
    Node& changed = node(ref);
    update_summary(changed);
    changed.hull = hull_of(changed);
    if (changed.hull == Hull::kBridged) changed.bridge = find_bridge(*this, changed.older, changed.newer);
}

// After an erasure: two blocks that fit in half of one become one, so that blocks stay filled.
HullTree::Ref HullTree::merged_or_balanced(Ref ref) {
    const auto [older, newer] = std::pair(node(ref).older, node(ref).newer);
    const bool are_sparse = is_block(older) && is_block(newer) &&
                            block(older).size() + block(newer).size() <= HullBlock::kCapacity / 2;
    if (!are_sparse) return balanced(ref);
    block(older).append(block(newer));
    free_block(newer);
    free_node(ref);
    return older;
}

HullTree::Ref HullTree::balanced(Ref ref) {
    const auto [older, newer] = std::pair(node(ref).older, node(ref).newer);
    const int lean = height_of(newer) - height_of(older);
    if (lean > 1) {
        if (height_of(node(newer).older) > height_of(node(newer).newer)) {
            node(ref).newer = rotate_to_newer(newer);
        }
        return rotate_to_older(ref);
    }
    if (lean < -1) {
        if (height_of(node(older).newer) > height_of(node(older).older)) {
            node(ref).older = rotate_to_older(older);
        }
        return rotate_to_newer(ref);
    }
    return ref;
}

HullTree::Ref HullTree::rotate_to_older(Ref ref) {
    const Ref top = node(ref).newer;
    node(ref).newer = node(top).older;
    update_from_scratch(ref);
    node(top).older = ref;
    update_from_scratch(top);
    return top;
}

HullTree::Ref HullTree::rotate_to_newer(Ref ref) {
    const Ref top = node(ref).older;
    node(ref).older = node(top).newer;
    update_from_scratch(ref);
    node(top).newer = ref;
    update_from_scratch(top);
    return top;
}

HullTree::Ref HullTree::new_node(Ref older, Ref newer) {
    Ref ref = static_cast<Ref>(nodes_.size());
    if (free_nodes_.empty()) {
        nodes_.emplace_back();
    } else {
        ref = free_nodes_.back();
        free_nodes_.pop_back();
    }
    node(ref).older = older;
    node(ref).newer = newer;
    update_from_scratch(ref);
    return ref;
}

HullTree::Ref HullTree::new_block() {
    if (free_blocks_.empty()) {
        blocks_.push_back(std::make_unique<HullBlock>());
        return -static_cast<Ref>(blocks_.size());
    }
    const Ref ref = free_blocks_.back();
    free_blocks_.pop_back();
    block(ref).clear();
    return ref;
}

}  // namespace marconi
