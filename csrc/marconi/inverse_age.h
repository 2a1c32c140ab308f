// The score with recency 1 / (now - last access): its rule in doubles and the search for its minimum.
#pragma once

#include <cstdint>

#include "marconi/hull_tree.h"

namespace marconi {

// The score is defined in doubles, one rounding per operation, in this order:
//   inverse(t)  = 1.0 / double(now - t)
//   recency     = (inverse(t) - inverse(t_min)) / (inverse(t_max) - inverse(t_min))
//   efficiency' = (e - e_min) / (e_max - e_min)
//   score       = recency + alpha * efficiency'
// where a term whose range is zero (in doubles) is 0. Every operation is monotone under rounding, so the
// score never falls when t or e rises.
class InverseAgeScore {
  public:
    // Requires now > all.max_last_access.
    InverseAgeScore(double alpha, std::uint64_t now, const Summary& all);

    [[nodiscard]] double operator()(std::uint64_t last_access, double efficiency) const;

  private:
    [[nodiscard]] double inverse_age(std::uint64_t last_access) const;

    double alpha_;
    std::uint64_t now_;
    double min_efficiency_;
    double efficiency_range_;
    double min_inverse_age_ = 0;
    double inverse_age_range_ = 0;
};

// The first minimum in (last access, id) order, by branch and bound over the tree: a subtree's bound is the
// score of its oldest time stamp with its least efficiency. Near-logarithmic when few subtrees reach the
// minimum's score (the usual case: recency is close to 0 for all but the newest candidates); O(n) at worst,
// when efficiency falls with time so that nearly all scores are equal.
const Candidate& minimum_inverse_age(const HullTree& tree, const InverseAgeScore& score);

}  // namespace marconi
