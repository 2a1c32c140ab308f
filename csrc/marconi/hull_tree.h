// Candidates in (last access, id) order under a balanced tree that knows its lower-left hull.
//
// After Overmars and van Leeuwen, "Maintenance of configurations in the plane" (1981): every inner node
// keeps only the bridge, the hull edge that joins its older to its newer half. The minimum in a direction
// is found by walking down and comparing the two ends of each bridge; the hull knows no direction, so
// nothing is to be updated when normalisation or alpha moves.
//
// Complexity for n candidates: minimum O(log n); insert and erase O(log n) plus O(log n) for each
// bridge that the change breaks (mostly none or few; O(log^2 n) at worst). Leaves are blocks of candidates,
// which cuts levels and memory; the tree above them is height-balanced (AVL).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "marconi/hull_block.h"
#include "marconi/score_plane.h"

namespace marconi {

class HullTree {
  public:
    // A subtree: an inner node (>= 0) or a block (-1 - its number, < 0).
    using Ref = std::int32_t;

    // Which halves hold hull vertices of a node.
    enum class Hull : std::uint8_t {
        kOlderOnly,  // the older half has the least efficiency too
        kNewerOnly,  // the older half has one time stamp, at which the newer half has less efficiency
        kBridged,
    };

    struct Node {
        Ref older;
        Ref newer;
        std::uint8_t height;
        Hull hull;
        // Supports all candidates below; no candidate of the older half lies at bridge.newer.
        Edge bridge;
        Summary summary;
    };

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] bool empty() const { return size_ == 0; }
    // Requires !empty(), as does all that follows.
    [[nodiscard]] Ref root() const { return root_; }
    [[nodiscard]] const Summary& summary() const { return summary_of(root_); }
    [[nodiscard]] const Candidate& oldest() const;
    // The first minimum in (last access, id) order.
    [[nodiscard]] const Candidate& minimum(const Direction& direction) const;

    [[nodiscard]] static bool is_block(Ref ref) { return ref < 0; }
    [[nodiscard]] static std::size_t block_number(Ref ref) { return static_cast<std::size_t>(-(ref + 1)); }
    [[nodiscard]] const Node& node(Ref ref) const { return nodes_[static_cast<std::size_t>(ref)]; }
    [[nodiscard]] const HullBlock& block(Ref ref) const { return *blocks_[block_number(ref)]; }
    [[nodiscard]] const Summary& summary_of(Ref ref) const {
        return is_block(ref) ? block(ref).summary() : node(ref).summary;
    }

    // Calls visit(candidate) in (last access, id) order.
    template <typename Visit>
    void for_each(Visit visit) const {
        if (!empty()) for_each_below(root_, visit);
    }

    // The candidate's id must be new.
    void insert(const Candidate& candidate);
    // The candidate must be held with the same last access and efficiency.
    void erase(const Candidate& candidate);
    void clear();

  private:
    // What happened below a node; decides whether its bridge still stands.
    enum class Change : std::uint8_t { kInserted, kErased };

    template <typename Visit>
    void for_each_below(Ref ref, Visit& visit) const {
        if (is_block(ref)) {
            for (const Candidate& candidate : block(ref)) visit(candidate);
            return;
        }
        for_each_below(node(ref).older, visit);
        for_each_below(node(ref).newer, visit);
    }

    Ref insert_below(Ref ref, const Candidate& candidate);
    Ref insert_into_block(Ref ref, const Candidate& candidate);
    // kNothing when the subtree has become empty.
    Ref erase_below(Ref ref, const Candidate& candidate);

    [[nodiscard]] bool belongs_to_newer(const Node& node, const Candidate& candidate) const;
    [[nodiscard]] bool bridge_breaks(const Node& node, Change change, const Candidate& candidate,
                                     bool in_newer) const;
    [[nodiscard]] Hull hull_of(const Node& node) const;
    void update_summary(Node& node);
    void update(Ref ref, Change change, const Candidate& candidate, bool in_newer);
    void update_from_scratch(Ref ref);
    Ref merged_or_balanced(Ref ref);
    Ref balanced(Ref ref);
    Ref rotate_to_older(Ref ref);
    Ref rotate_to_newer(Ref ref);
    [[nodiscard]] int height_of(Ref ref) const { return is_block(ref) ? 0 : node(ref).height; }

    Ref new_node(Ref older, Ref newer);
    Ref new_block();
    void free_node(Ref ref) { free_nodes_.push_back(ref); }
    void free_block(Ref ref) { free_blocks_.push_back(ref); }
    Node& node(Ref ref) { return nodes_[static_cast<std::size_t>(ref)]; }
    HullBlock& block(Ref ref) { return *blocks_[block_number(ref)]; }

    static constexpr Ref kNothing = INT32_MIN;

    Ref root_ = kNothing;
    std::size_t size_ = 0;
    std::vector<Node> nodes_;
    std::vector<std::unique_ptr<HullBlock>> blocks_;
    std::vector<Ref> free_nodes_;
    std::vector<Ref> free_blocks_;
};

}  // namespace marconi
