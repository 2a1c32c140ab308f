// One replay of a trace through one policy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "marconi/policies/policy.h"
#include "marconi/pools/pool_cache.h"
#include "marconi/pools/service.h"
#include "marconi/replay/outcome.h"
#include "marconi/replay/paper_artifact.h"
#include "marconi/trace/trace.h"
#include "marconi/tuning/schedule.h"
#include "marconi/tuning/window.h"

namespace marconi {

enum class Preset : std::uint8_t { kDefault, kPaperArtifact };

// What bounds a cache.
enum class Budget : std::uint8_t {
    kBytes,   // one number of bytes for KV and states, requests one by one: the paper's setting
    kSglang,  // SGLang's two pools, shared with the requests in flight
};

struct ReplayOptions {
    Preset preset = Preset::kDefault;
    // Policy none serves everything uncached, belady is the clairvoyant bound.
    PolicyOptions policy;
    // Policy marconi starts at alpha 0 and tunes it by replaying its first requests; with the budget sglang
    // again and again, in every form.
    bool tunes_alpha = false;
    TuningOptions tuning;  // with the budget sglang
    Objective objective;   // likewise
    Budget budget = Budget::kBytes;
    std::int64_t capacity_bytes = 0;  // of the budget in bytes
    PoolSizes pools;                  // of the budget sglang
    ServiceModel service;             // with the budget sglang
    LayerwiseCost cost;
};

// Throws std::invalid_argument for a name, preset or number that cannot be.
void validate(const ReplayOptions& options);

// The spacing of nodes that the replay's trace must have, see cut_at_grid; 1 for any trace.
std::uint32_t required_grid_tokens(const ReplayOptions& options);

// Requires valid options and the grid. A cancelled replay stops early.
ReplayResult replay(const Trace& trace, const ReplayOptions& options, const Progress& progress);

// The same for the requests from `first` to before `last`, on an empty cache; not for belady.
ReplayResult replay_requests(const Trace& trace, std::size_t first, std::size_t last,
                             const ReplayOptions& options, const Progress& progress);

}  // namespace marconi
