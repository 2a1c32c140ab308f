#include "marconi/policies/sglang_native.h"

namespace marconi {

void SglangNativePolicy::choose_checkpoints(const CacheTree& cache, const Lookup& lookup,
                                            Checkpoints& chosen) {
    const PrefixTree& prefixes = cache.prefixes();
    const auto on_grid_before = [&](std::size_t nodes) {
        return nodes == 0 ? 0 : prefixes.depth_tokens(lookup.path[nodes - 1]) / kGridTokens * kGridTokens;
    };
    const std::uint32_t branch = on_grid_before(lookup.cached_prompt_nodes);
    const std::uint32_t prompt_end = on_grid_before(lookup.prompt_nodes);
    const std::uint32_t sequence_end = on_grid_before(lookup.path.size());
    const std::uint32_t hit = prefixes.depth_tokens(lookup.hit);
    std::uint32_t last = 0;
    for (std::size_t i = 0; i < lookup.path.size(); ++i) {
        const std::uint32_t depth = prefixes.depth_tokens(lookup.path[i]);
        const bool is_chunk_end = depth > hit && depth < prompt_end && (depth - hit) % kChunkTokens == 0;
        const bool is_wanted =
            is_chunk_end || (depth == branch && branch > hit) || depth == prompt_end || depth == sequence_end;
        if (is_wanted && depth > last) {
            chosen.push_back(i);
            last = depth;
        }
    }
}

}  // namespace marconi
