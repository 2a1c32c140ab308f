#include "marconi/hull_cursor.h"

namespace marconi {
namespace {

// One step of the search for the bridge while both subtrees still have an edge. For a slope, compare the two
// subtrees' supporting lines: if the newer one's lies lower, the bridge is steeper than that slope, else it
// is not (a tie counts as "not", which picks the flattest bridge). The line through a subtree's edge is its
// own supporting line of that slope, and all of the subtree is on or above it.
void narrow(HullCursor& older, HullCursor& newer, std::uint64_t border) {
    const Edge first = older.edge();
    const Edge second = newer.edge();
    const int height = compare_heights(first, second, border);
    if (compare_slopes(first, second) < 0) {
        // If they cross at or before the border, all of `newer` is on or above `first`, so the bridge is no
        // steeper than `first`; else all of `older` is above `second`, so the bridge is steeper than
        // `second`.
        if (height <= 0) {
            older.keep_newer();
        } else {
            newer.keep_older();
        }
    } else if (height > 0) {
        // Beyond the border `second` stays below `first`: the bridge is steeper than `first`.
        older.keep_older();
    } else {
        // Up to the border `first` stays at or below `second`: the bridge is no steeper than `second`.
        newer.keep_newer();
    }
}

}  // namespace

void HullCursor::settle() {
    while (!HullTree::is_block(ref_)) {
        const HullTree::Node& node = tree_.node(ref_);
        if (node.hull == HullTree::Hull::kBridged) return;
        ref_ = node.hull == HullTree::Hull::kOlderOnly ? node.older : node.newer;
    }
    first_ = 0;
    last_ = tree_.block(ref_).hull_size() - 1;
}

Edge HullCursor::edge() const {
    if (!HullTree::is_block(ref_)) return tree_.node(ref_).bridge;
    const HullBlock& block = tree_.block(ref_);
    return {block.hull_vertex(middle()), block.hull_vertex(middle() + 1)};
}

void HullCursor::keep_older() {
    if (HullTree::is_block(ref_)) {
        last_ = middle();
        return;
    }
    ref_ = tree_.node(ref_).older;
    settle();
}

void HullCursor::keep_newer() {
    if (HullTree::is_block(ref_)) {
        first_ = middle() + 1;
        return;
    }
    ref_ = tree_.node(ref_).newer;
    settle();
}

Edge find_bridge(const HullTree& tree, HullTree::Ref older_subtree, HullTree::Ref newer_subtree) {
    HullCursor older(tree, older_subtree);
    HullCursor newer(tree, newer_subtree);
    const std::uint64_t border = tree.summary_of(newer_subtree).min_last_access;
    while (!older.is_vertex() && !newer.is_vertex()) narrow(older, newer, border);
    while (!older.is_vertex()) {
        if (side_of(older.edge(), newer.vertex()) < 0) {
            older.keep_older();
        } else {
            older.keep_newer();
        }
    }
    while (!newer.is_vertex()) {
        if (side_of(newer.edge(), older.vertex()) > 0) {
            newer.keep_older();
        } else {
            newer.keep_newer();
        }
    }
    return {older.vertex(), newer.vertex()};
}

}  // namespace marconi
