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

    // No candidate of the part scores less, by its oldest time stamp and least efficiency.
    [[nodiscard]] double lower_bound(const Summary& part) const;
    // The same, by a line of falling efficiency with no candidate of the part below it: closer when
    // efficiency falls with time. Requires that neither term's range is zero.
    [[nodiscard]] double lower_bound(const Summary& part, const Edge& support) const;
    [[nodiscard]] bool has_both_terms() const { return inverse_age_range_ > 0 && efficiency_range_ > 0; }

  private:
    [[nodiscard]] double age(std::uint64_t last_access) const {
        return static_cast<double>(now_ - last_access);
    }

    double alpha_;
    std::uint64_t now_;
    double min_efficiency_;
    double efficiency_range_;
    double min_inverse_age_;
    double max_inverse_age_;
    double inverse_age_range_;
};

// The first minimum in (last access, id) order, by branch and bound over the tree. Near-logarithmic while few
// subtrees reach down to the minimum's score; O(n) at worst, when efficiency falls with time along the very
// curve on which all scores are equal.
const Candidate& minimum_inverse_age(const HullTree& tree, const InverseAgeScore& score);

}  // namespace marconi
