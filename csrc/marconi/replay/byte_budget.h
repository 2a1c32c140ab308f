// Serves requests one by one from a cache with one byte budget for KV and states.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "marconi/policies/policy.h"
#include "marconi/replay/outcome.h"
#include "marconi/trace/trace.h"

namespace marconi {

// The request's own path is locked while it is admitted; what cannot fit evicts nothing. A hit leaves at
// least one prompt token to compute.
class ByteBudgetCache {
  public:
    // The trace must outlive the cache and have nodes on the policy's grid.
    ByteBudgetCache(const Trace& trace, const PolicyOptions& options, const PrefixCost& cost,
                    std::int64_t capacity_bytes);

    Outcome serve(const Request& request);
    [[nodiscard]] Policy& policy() { return *policy_; }

  private:
    [[nodiscard]] Lookup look_up(const Request& request);
    void count_tokens(const Request& request, const Lookup& lookup, Outcome& outcome) const;
    // Drops the checkpoints that do not fit, all of them where a part is of no use.
    void keep_what_fits(Checkpoints& chosen) const;
    void admit(const Lookup& lookup, const Checkpoints& chosen);
    void evict_to_capacity(std::size_t locked_nodes, Outcome& outcome);

    CacheTree cache_;
    std::unique_ptr<Policy> policy_;
    std::int64_t capacity_bytes_;
    // Nodes at which a state was ever admitted.
    std::vector<std::uint8_t> had_state_;
    std::vector<NodeId> path_;
    Checkpoints chosen_;
};

}  // namespace marconi
