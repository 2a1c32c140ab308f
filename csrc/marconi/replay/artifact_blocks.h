// vLLM+ in the simulator of Marconi's authors: blocks of 32 tokens, each with its KV and a state.
//
// The least recently used leaf goes; every look-up touches the whole path. An insertion asks for the bytes of
// its new blocks and is made in any case.
#pragma once

#include <cstdint>
#include <vector>

#include "marconi/prefix_cost.h"
#include "marconi/replay/outcome.h"
#include "marconi/trace/trace.h"
#include "marconi/utility_index.h"

namespace marconi {

class ArtifactBlockCache {
  public:
    static constexpr std::uint32_t kBlockTokens = 32;

    // The trace must outlive the cache and have a node at every multiple of kBlockTokens.
    ArtifactBlockCache(const Trace& trace, const PrefixCost& cost, std::int64_t capacity_bytes);

    Outcome serve(const Request& request);

  private:
    [[nodiscard]] bool is_block_end(NodeId node) const {
        return trace_.tree.depth_tokens(node) % kBlockTokens == 0;
    }
    void blocks_to(NodeId node);
    // Touches the cached blocks of the path and returns their number.
    std::size_t touch_cached();
    void insert(Outcome& outcome);
    void add(NodeId block);
    void evict_oldest_leaf();
    [[nodiscard]] NodeId parent_block(NodeId block) const;

    const Trace& trace_;
    PrefixCost cost_;
    std::int64_t capacity_bytes_;
    std::vector<NodeId> path_;
    std::vector<std::uint32_t> children_;
    std::vector<std::uint64_t> last_access_;
    std::vector<std::uint8_t> is_cached_;
    std::vector<std::uint8_t> was_cached_;
    UtilityIndex leaves_;  // with alpha 0
    std::uint64_t clock_ = 0;
    std::int64_t blocks_ = 0;
};

}  // namespace marconi
