// A leaf of the hull tree: up to kCapacity candidates in order, with their lower-left hull.
#pragma once

#include <array>
#include <cstdint>

#include "marconi/score_plane.h"

namespace marconi {

// What a node of the hull tree must know about the candidates below it, at least one.
struct Summary {
    std::uint64_t min_last_access;
    std::int64_t first_id;  // of the first candidate in (last access, id) order
    std::uint64_t max_last_access;
    double first_efficiency;  // the least among those at min_last_access
    double min_efficiency;
    double max_efficiency;
};

Summary combine(const Summary& older, const Summary& newer);

// The lower-left hull holds, of all candidates, those that are minimal for some direction of positive
// weights: last access rises, efficiency falls, slopes rise, all strictly. Of candidates at one place it
// holds the lowest id; candidates inside an edge are left out because the older end wins their ties.
class HullBlock {
  public:
    static constexpr int kCapacity = 32;

    [[nodiscard]] int size() const { return size_; }
    [[nodiscard]] const Candidate* begin() const { return candidates_.data(); }
    [[nodiscard]] const Candidate* end() const { return candidates_.data() + size_; }

    [[nodiscard]] int hull_size() const { return hull_size_; }
    [[nodiscard]] const Candidate& hull_vertex(int i) const { return candidates_[hull_[i]]; }

    [[nodiscard]] const Summary& summary() const { return summary_; }

    // Requires size() < kCapacity.
    void insert(const Candidate& candidate);
    // Requires that the block holds the candidate.
    void erase(const Candidate& candidate);
    // Where the candidate is or would be.
    [[nodiscard]] int position_of(const Candidate& candidate) const;
    // Moves the candidates from `position` on into `newer`, which must be empty.
    void split_into(HullBlock& newer, int position);
    // Takes all candidates of `newer`, which follow this block's. Requires room for them.
    void append(const HullBlock& newer);
    void clear() { size_ = 0; }

  private:
    void rebuild();
    void rebuild_hull();

    std::array<Candidate, kCapacity> candidates_;
    Summary summary_;
    int size_ = 0;
    int hull_size_ = 0;
    std::array<std::uint8_t, kCapacity> hull_;
};

}  // namespace marconi
