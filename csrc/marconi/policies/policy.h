// What to keep and what to evict: the one interface of all policies.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "marconi/prefix_cost.h"
#include "marconi/replay/cache_tree.h"
#include "marconi/utility_index.h"

namespace marconi {

struct PolicyOptions {
    std::string name;
    double alpha = 0;
    RecencyForm recency = RecencyForm::kLinear;
    BytesForm bytes = BytesForm::kOwn;
    // Tokens that a branch point must save over the nearest state to be worth a state.
    std::uint32_t min_branch_gain_tokens = 32;
    // Keep the state at the prompt's end too; budget sglang alone.
    bool admits_prompt_end = false;
};

// A request and what the cache held when it came.
struct Lookup {
    // From below the root to the end of prompt and reply.
    const std::vector<NodeId>& path;
    // Leading nodes of `path`: the prompt, its cached KV, the cached KV of prompt and reply.
    std::size_t prompt_nodes;
    std::size_t cached_prompt_nodes;
    std::size_t cached_nodes;
    // The deepest usable state on the prompt, kRoot without one.
    NodeId hit;
};

// Positions in `path`, rising: states are wanted after these nodes. KV is kept up to the last one.
using Checkpoints = std::vector<std::size_t>;

class Policy : public StateListener {
  public:
    virtual void choose_checkpoints(const CacheTree& cache, const Lookup& lookup, Checkpoints& chosen) = 0;
    // Whether a sequence that does not fit is kept as far as its first checkpoints fit, instead of not at
    // all.
    [[nodiscard]] virtual bool keeps_what_fits() const { return false; }

    // The request came: what its look-up touches.
    virtual void touch_hit(const CacheTree& cache, const Lookup& lookup) = 0;
    // The node's state was admitted just now, or taken anew.
    virtual void touch_admitted(NodeId node) = 0;

    virtual void lock(NodeId node) = 0;
    virtual void unlock(NodeId node) = 0;
    // The unlocked node whose state goes next, kNoNode without one.
    [[nodiscard]] virtual NodeId victim() = 0;
};

// Names: vllm, sglang, sglang-native, marconi. Throws std::invalid_argument for others. The cache must
// outlive the policy.
std::unique_ptr<Policy> make_policy(const PolicyOptions& options, const CacheTree& cache);

// Prefixes must have a node at every multiple of this; 1 where any will do.
std::uint32_t policy_grid_tokens(const std::string& name);

}  // namespace marconi
