// Bootstrap tuning of alpha (Marconi, section 4.3): replay recent requests for each alpha of a grid.
#pragma once

#include <cstddef>
#include <vector>

#include "marconi/replay/replay.h"

namespace marconi {

// When and on what to tune.
class AlphaTuning {
  public:
    explicit AlphaTuning(const ReplayOptions& options) : options_(options) {}

    // Tells the requests served so far and whether anything was evicted; true when it is time to tune.
    bool is_due(std::size_t served_requests, bool has_evicted);

    // The best alpha for the window. Paper artifact: grid 0, 0.1 .. 2, all requests so far, FLOPs saved over
    // the last 500. Default: a grid fine near 0, the requests after the first eviction, hit tokens, and only
    // if alpha 0 is beaten by a margin. Ties go to the smaller alpha.
    [[nodiscard]] double best_alpha(const Trace& trace, const Progress& progress) const;

  private:
    [[nodiscard]] double score(const Trace& trace, double alpha, const Progress& progress) const;

    const ReplayOptions& options_;
    std::size_t first_eviction_ = 0;  // requests served by then, 0 before
    std::size_t window_end_ = 0;
};

}  // namespace marconi
