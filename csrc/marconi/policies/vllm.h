// vLLM+ of the paper: a state after every block of 32 tokens, the least recently used leaf goes.
#pragma once

#include "marconi/policies/lru.h"

namespace marconi {

class VllmPolicy final : public LruPolicy {
  public:
    static constexpr std::uint32_t kBlockTokens = 32;

    explicit VllmPolicy(const CacheTree& cache) : LruPolicy(cache, Candidates::kLeaves, Touch::kPath) {}

    bool keeps_what_fits() const override { return true; }

    void choose_checkpoints(const CacheTree& cache, const Lookup& lookup, Checkpoints& chosen) override {
        for (std::size_t i = 0; i < lookup.path.size(); ++i) {
            if (cache.prefixes().depth_tokens(lookup.path[i]) % kBlockTokens == 0) chosen.push_back(i);
        }
    }
};

}  // namespace marconi
