// SGLang 0.5.23's own cache, approximately: one byte budget instead of its two pools, requests one by one.
//
// States at the ends of prefill chunks, the prompt, the reply, and where the prompt leaves the cached KV, all
// rounded down to the 64-token grid. The least recently used state goes, whatever its children; a hit
// refreshes the state that it uses.
#pragma once

#include "marconi/policies/lru.h"

namespace marconi {

class SglangNativePolicy final : public LruPolicy {
  public:
    static constexpr std::uint32_t kGridTokens = 64;
    static constexpr std::uint32_t kChunkTokens = 8192;

    explicit SglangNativePolicy(const CacheTree& cache)
        : LruPolicy(cache, Candidates::kAllStates, Touch::kHit) {}

    void choose_checkpoints(const CacheTree& cache, const Lookup& lookup, Checkpoints& chosen) override;
};

}  // namespace marconi
