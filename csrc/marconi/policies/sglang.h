// SGLang+ of the paper: judicious admission, the least recently used leaf goes.
#pragma once

#include "marconi/policies/judicious.h"
#include "marconi/policies/lru.h"

namespace marconi {

class SglangPolicy final : public LruPolicy {
  public:
    SglangPolicy(const CacheTree& cache, const PolicyOptions& options)
        : LruPolicy(cache, Candidates::kLeaves, Touch::kPath),
          min_branch_gain_tokens_(options.min_branch_gain_tokens) {}

    void choose_checkpoints(const CacheTree& cache, const Lookup& lookup, Checkpoints& chosen) override {
        choose_judicious(cache, lookup, min_branch_gain_tokens_, chosen);
    }

  private:
    std::uint32_t min_branch_gain_tokens_;
};

}  // namespace marconi
