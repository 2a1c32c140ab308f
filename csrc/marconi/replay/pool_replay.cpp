#include "marconi/replay/pool_replay.h"

#include <memory>

#include "marconi/pools/utility_order.h"
#include "marconi/replay/alpha_tuning.h"

namespace marconi {

ReplayResult replay_pools(const Trace& trace, std::size_t first, std::size_t last,
                          const ReplayOptions& options, const Progress& progress) {
    const bool tunes = options.tunes_alpha && options.policy.name == "marconi";
    ReplayOptions current = options;
    if (tunes) current.policy.alpha = 0;
    const std::unique_ptr<EvictionOrder> order = make_eviction_order(current.policy, current.cost.total);
    PoolCache cache(trace, current.pools, pool_admission(current.policy), current.cost.total, *order);
    AlphaTuning tuning(current);
    ReplayResult result;
    std::size_t started = 0;
    const auto tune = [&](std::size_t /*request*/) {
        ++started;
        if (!tunes || !tuning.is_due(started, cache.has_evicted())) return;
        current.policy.alpha = tuning.best_alpha(trace, progress);
        static_cast<UtilityOrder&>(*order).set_alpha(current.policy.alpha);
        result.tuned_after = static_cast<std::int64_t>(started);
    };
    Service(trace, cache, current.service, first, last).run(progress, tune);
    const auto begin = cache.outcomes().begin();
    result.outcomes.assign(begin + static_cast<std::ptrdiff_t>(first),
                           begin + static_cast<std::ptrdiff_t>(first + started));
    result.alpha = current.policy.alpha;
    return result;
}

}  // namespace marconi
