// Judicious admission: states at branch points and after the last decoded token (Marconi, section 4.1).
#pragma once

#include <cstdint>

#include "marconi/policies/policy.h"

namespace marconi {

// At most one branch point per request: where the prompt leaves the cached KV.
void choose_judicious(const CacheTree& cache, const Lookup& lookup, std::uint32_t min_branch_gain_tokens,
                      Checkpoints& chosen);

}  // namespace marconi
