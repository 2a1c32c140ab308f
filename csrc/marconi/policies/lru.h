// Least recently used states, all or those of leaves alone.
#pragma once

#include <cstdint>
#include <vector>

#include "marconi/policies/policy.h"

namespace marconi {

class LruPolicy : public Policy {
  public:
    enum class Candidates : std::uint8_t { kLeaves, kAllStates };
    enum class Touch : std::uint8_t { kPath, kHit };

    LruPolicy(const CacheTree& cache, Candidates candidates, Touch touch);

    void touch_hit(const CacheTree& cache, const Lookup& lookup) override;
    void touch_admitted(NodeId node) override;
    void lock(NodeId node) override;
    void unlock(NodeId node) override;
    NodeId victim() override;
    void state_changed(NodeId node) override;
    void state_removed(NodeId node) override;

  private:
    void touch(NodeId node);

    const CacheTree& cache_;
    Candidates candidates_;
    Touch touch_;
    UtilityIndex index_;  // with alpha 0
    std::vector<std::uint64_t> last_access_;
    std::uint64_t clock_ = 0;
};

}  // namespace marconi
