// A replay of a trace through SGLang's two pools.
#pragma once

#include <cstddef>

#include "marconi/replay/replay.h"

namespace marconi {

// The requests from `first` to before `last`, on an empty cache. Requires valid options of the budget sglang
// and a policy that caches.
ReplayResult replay_pools(const Trace& trace, std::size_t first, std::size_t last,
                          const ReplayOptions& options, const Progress& progress);

}  // namespace marconi
