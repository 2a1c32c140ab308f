// Marconi: judicious admission, the least utility goes (Marconi, sections 4.1 and 4.2).
#pragma once

#include <cstdint>
#include <vector>

#include "marconi/policies/judicious.h"
#include "marconi/policies/policy.h"

namespace marconi {

// Candidates are states with at most one child; states with more children only when there is no other.
class MarconiPolicy final : public Policy {
  public:
    MarconiPolicy(const CacheTree& cache, const PolicyOptions& options);

    void set_alpha(double alpha);

    void choose_checkpoints(const CacheTree& cache, const Lookup& lookup, Checkpoints& chosen) override {
        choose_judicious(cache, lookup, options_.min_branch_gain_tokens, chosen);
    }
    void touch_hit(const CacheTree& cache, const Lookup& lookup) override;
    void touch_admitted(NodeId node) override;
    void lock(NodeId node) override;
    void unlock(NodeId node) override;
    NodeId victim() override;
    void state_changed(NodeId node) override;
    void state_removed(NodeId node) override;

    // FLOPs that the loss of the node's state costs the next request, per byte that it gives back.
    [[nodiscard]] double efficiency(NodeId node) const;

  private:
    UtilityIndex& index_holding(NodeId node) { return states_.contains(node) ? states_ : shared_states_; }

    const CacheTree& cache_;
    PolicyOptions options_;
    UtilityIndex states_;
    UtilityIndex shared_states_;
    std::vector<std::uint64_t> last_access_;
    std::uint64_t clock_ = 0;
};

}  // namespace marconi
