#include "marconi/inverse_age.h"

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
        const Summary& summary = tree_.summary_of(ref);
        return score_(summary.min_last_access, summary.min_efficiency);
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
      min_inverse_age_(inverse_age(all.min_last_access)),
      inverse_age_range_(inverse_age(all.max_last_access) - min_inverse_age_) {}

double InverseAgeScore::inverse_age(std::uint64_t last_access) const {
    return 1.0 / static_cast<double>(now_ - last_access);
}

double InverseAgeScore::operator()(std::uint64_t last_access, double efficiency) const {
    double score = 0;
    if (inverse_age_range_ > 0) score = (inverse_age(last_access) - min_inverse_age_) / inverse_age_range_;
    if (efficiency_range_ > 0) score += alpha_ * ((efficiency - min_efficiency_) / efficiency_range_);
    return score;
}

const Candidate& minimum_inverse_age(const HullTree& tree, const InverseAgeScore& score) {
    return Search(tree, score).run();
}

}  // namespace marconi
