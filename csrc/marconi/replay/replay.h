// One replay of a trace through one policy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "marconi/policies/policy.h"
#include "marconi/replay/outcome.h"
#include "marconi/replay/paper_artifact.h"
#include "marconi/trace/trace.h"

namespace marconi {

enum class Preset : std::uint8_t { kDefault, kPaperArtifact };

struct ReplayOptions {
    Preset preset = Preset::kDefault;
    // Policy none serves everything uncached, belady is the clairvoyant bound.
    PolicyOptions policy;
    // Policy marconi starts at alpha 0 and tunes it by replaying its first requests.
    bool tunes_alpha = false;
    std::int64_t capacity_bytes = 0;
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
