#include "marconi/inverse_age.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "marconi/hull_cursor.h"

namespace marconi {
namespace {

class Search {
  public:
    Search(const HullTree& tree, const InverseAgeScore& score)
        : tree_(tree), score_(score), best_(&tree.oldest()), best_score_(score_of(*best_)) {}

    const Candidate& run() {
        visit(tree_.root());
        return *best_;
    }

  private:
    [[nodiscard]] double score_of(const Candidate& candidate) const {
        return score_(candidate.last_access, candidate.efficiency);
    }

    [[nodiscard]] double bound(HullTree::Ref ref) const {
        const Summary& part = tree_.summary_of(ref);
        const double bound = score_.lower_bound(part);
        const HullCursor hull(tree_, ref);
        if (hull.is_vertex() || !score_.has_both_terms()) return bound;
        const double by_line = score_.lower_bound(part, hull.edge());
        return by_line > bound ? by_line : bound;  // by_line may be NaN
    }

    // A tie matters only in subtrees that come before the best candidate.
    [[nodiscard]] bool may_hold_better(HullTree::Ref ref, double bound) const {
        if (bound != best_score_) return bound < best_score_;
        const Summary& summary = tree_.summary_of(ref);
        return !best_->precedes(summary.min_last_access, summary.first_id);
    }

    void visit(HullTree::Ref ref) {
        if (HullTree::is_block(ref)) {
            scan(tree_.block(ref));
            return;
        }
        const HullTree::Node& node = tree_.node(ref);
        if (node.hull == HullTree::Hull::kOlderOnly) {
            // Its least efficient candidate scores no more than any of the newer half, and precedes them.
            visit(node.older);
            return;
        }
        const double older_bound = bound(node.older);
        const double newer_bound = bound(node.newer);
        if (older_bound <= newer_bound) {
            if (may_hold_better(node.older, older_bound)) visit(node.older);
            if (may_hold_better(node.newer, newer_bound)) visit(node.newer);
        } else {
            if (may_hold_better(node.newer, newer_bound)) visit(node.newer);
            if (may_hold_better(node.older, older_bound)) visit(node.older);
        }
    }

    void scan(const HullBlock& block) {
        for (const Candidate& candidate : block) {
            const double score = score_of(candidate);
            const bool wins_tie = candidate.precedes(best_->last_access, best_->id);
            if (score < best_score_ || (score == best_score_ && wins_tie)) {
                best_ = &candidate;
                best_score_ = score;
            }
        }
    }

    const HullTree& tree_;
    const InverseAgeScore& score_;
    const Candidate* best_;
    double best_score_;
};

}  // namespace

InverseAgeScore::InverseAgeScore(double alpha, std::uint64_t now, const Summary& all)
    : alpha_(alpha),
      now_(now),
      min_efficiency_(all.min_efficiency),
      efficiency_range_(all.max_efficiency - all.min_efficiency),
      min_inverse_age_(1.0 / age(all.min_last_access)),
      max_inverse_age_(1.0 / age(all.max_last_access)),
      inverse_age_range_(max_inverse_age_ - min_inverse_age_) {}

double InverseAgeScore::operator()(std::uint64_t last_access, double efficiency) const {
    double score = 0;
    if (inverse_age_range_ > 0) score = (1.0 / age(last_access) - min_inverse_age_) / inverse_age_range_;
    if (efficiency_range_ > 0) score += alpha_ * ((efficiency - min_efficiency_) / efficiency_range_);
    return score;
}

double InverseAgeScore::lower_bound(const Summary& part) const {
    return (*this)(part.min_last_access, part.min_efficiency);
}

double InverseAgeScore::lower_bound(const Summary& part, const Edge& support) const {
    // Along the line the score is convex in age: recency ~ 1 / age, efficiency' rises by `slope` with age.
    const auto& [older, newer] = support;
    const double slope = (older.efficiency - newer.efficiency) / efficiency_range_ /
                         static_cast<double>(newer.last_access - older.last_access);
    const double oldest = age(part.min_last_access);
    const double best_age =
        std::clamp(1.0 / std::sqrt(inverse_age_range_ * alpha_ * slope), age(part.max_last_access), oldest);
    const double recency = (1.0 / best_age - min_inverse_age_) / inverse_age_range_;
    const double start = (older.efficiency - min_efficiency_) / efficiency_range_;
    const double efficiency = start + slope * (best_age - age(older.last_access));

    // Covers the rounding of this bound and of the scores: a few units in the last place of the largest
    // terms.
    constexpr double kRelativeError = 64 * std::numeric_limits<double>::epsilon();
    const double magnitude = max_inverse_age_ / inverse_age_range_ + alpha_ * (start + slope * oldest);
    return recency + alpha_ * efficiency - kRelativeError * magnitude;
}

const Candidate& minimum_inverse_age(const HullTree& tree, const InverseAgeScore& score) {
    return Search(tree, score).run();
}

}  // namespace marconi
