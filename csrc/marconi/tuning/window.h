// A window of recorded requests, replayed from the cache's state when it opened (Marconi, section 4.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "marconi/pools/pool_cache.h"
#include "marconi/pools/utility_order.h"
#include "marconi/replay/outcome.h"

namespace marconi {

// What happened, in order: replays start and finish requests as the recorded cache did.
struct Step {
    enum class Kind : std::uint8_t { kStart, kFinish, kAbort };
    Kind kind;
    std::size_t request;
};

// What a form of the utility would have reached in the window, and of that in its later half.
struct WindowScore {
    double hit_tokens = 0;
    double flops_saved = 0;
    double late_hit_tokens = 0;
    double late_flops_saved = 0;
};

// Requires that the cache's order is a UtilityOrder. A request that finds no room is served uncached.
WindowScore replay_window(const PoolCache& opened, const std::vector<Step>& steps, const UtilityForm& form,
                          const Progress& progress);

// Alpha 0, then rising alphas in every form of recency and bytes: no form wins on every workload.
std::vector<UtilityForm> tuning_forms();

struct Objective {
    bool counts_flops = false;  // or hit tokens
    // By how much of its score a form must beat the present one to replace it.
    double min_gain = 0.02;

    [[nodiscard]] double of(const WindowScore& score) const {
        return counts_flops ? score.flops_saved : score.hit_tokens;
    }
    [[nodiscard]] double late(const WindowScore& score) const {
        return counts_flops ? score.late_flops_saved : score.late_hit_tokens;
    }
};

// Position of the form to go on with. A form wins over another if it beats it by the margin on the window and
// on its later half, which depends less on the state that the cache was in. The best form that wins over the
// present one, of equals the first; the present one if there is none, unless alpha 0, which is the first,
// would have been better.
std::size_t choose_form(const std::vector<WindowScore>& scores, std::size_t present,
                        const Objective& objective);

}  // namespace marconi
