#include "marconi/policies/judicious.h"

#include <algorithm>

namespace marconi {

void choose_judicious(const CacheTree& cache, const Lookup& lookup, std::uint32_t min_branch_gain_tokens,
                      Checkpoints& chosen) {
    const PrefixTree& prefixes = cache.prefixes();
    if (lookup.cached_prompt_nodes > 0 && lookup.cached_prompt_nodes < lookup.path.size()) {
        const std::size_t branch = lookup.cached_prompt_nodes - 1;
        const std::uint32_t gain =
            prefixes.depth_tokens(lookup.path[branch]) - prefixes.depth_tokens(lookup.hit);
        if (!cache.has_state(lookup.path[branch]) && gain >= std::max(1U, min_branch_gain_tokens))
            chosen.push_back(branch);
    }
    if (!lookup.path.empty()) chosen.push_back(lookup.path.size() - 1);
}

}  // namespace marconi
