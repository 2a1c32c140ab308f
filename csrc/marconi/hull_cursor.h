// Binary search over the hull of a subtree: which vertices remain, and the edge that halves them.
#pragma once

#include <cstdint>

#include "marconi/hull_tree.h"

namespace marconi {

class HullCursor {
  public:
    HullCursor(const HullTree& tree, HullTree::Ref subtree) : tree_(tree), ref_(subtree) { settle(); }

    // One vertex is left.
    [[nodiscard]] bool is_vertex() const { return HullTree::is_block(ref_) && first_ == last_; }
    // Requires is_vertex().
    [[nodiscard]] const Candidate& vertex() const { return tree_.block(ref_).hull_vertex(first_); }

    // Requires !is_vertex(), as does all that follows.
    [[nodiscard]] Edge edge() const;
    // Drop what is newer than the edge, or older.
    void keep_older();
    void keep_newer();

  private:
    void settle();
    [[nodiscard]] int middle() const { return (first_ + last_) / 2; }

    const HullTree& tree_;
    HullTree::Ref ref_;
    // The range of hull vertices, once in a block.
    int first_ = 0;
    int last_ = 0;
};

// The hull edge between two neighbouring subtrees. Requires that the newer one has the least efficiency
// and that the hull has a vertex in the older one. Of several such edges (both subtrees have a vertex at
// one place) the flattest: its newer end is no place of the older subtree.
Edge find_bridge(const HullTree& tree, HullTree::Ref older, HullTree::Ref newer);

}  // namespace marconi
