#include "marconi/replay/alpha_tuning.h"

#include <algorithm>

namespace marconi {
namespace {

constexpr std::size_t kBootstrapMultiplier = 5;
constexpr std::size_t kArtifactScoredRequests = 500;
// By how much more hit tokens than alpha 0 an alpha must have to be worth a change.
constexpr double kMargin = 0.005;

std::vector<double> alpha_grid(Preset preset) {
    if (preset == Preset::kDefault) return {0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2};
    std::vector<double> grid;
    for (int tenth = 0; tenth <= 20; ++tenth) grid.push_back(tenth / 10.0);
    return grid;
}

}  // namespace

bool AlphaTuning::is_due(std::size_t served_requests, bool has_evicted) {
    if (first_eviction_ == 0 && has_evicted) {
        first_eviction_ = served_requests;
        const std::size_t start = options_.preset == Preset::kPaperArtifact ? 0 : first_eviction_;
        window_end_ = start + kBootstrapMultiplier * first_eviction_;
    }
    return window_end_ != 0 && served_requests == window_end_;
}

double AlphaTuning::best_alpha(const Trace& trace, const Progress& progress) const {
    double best_alpha = 0;
    double best_score = -1;
    for (const double alpha : alpha_grid(options_.preset)) {
        const double reached = score(trace, alpha, progress);
        if (reached <= best_score) continue;
        best_alpha = alpha;
        best_score = reached;
        // Alpha 0 is the first of the grid.
        if (options_.preset == Preset::kDefault && alpha == 0) best_score *= 1 + kMargin;
    }
    return best_alpha;
}

double AlphaTuning::score(const Trace& trace, double alpha, const Progress& progress) const {
    const bool is_artifact = options_.preset == Preset::kPaperArtifact;
    ReplayOptions options = options_;
    options.policy.alpha = alpha;
    options.tunes_alpha = false;
    const auto first = is_artifact ? std::size_t{0} : first_eviction_;
    const ReplayResult result = replay_requests(trace, first, window_end_, options, progress.uncounted());
    const std::vector<Outcome>& outcomes = result.outcomes;
    if (!is_artifact) return result.hit_tokens;
    double flops_saved = 0;
    const std::size_t scored = std::min(kArtifactScoredRequests, outcomes.size());
    for (auto outcome = outcomes.end() - static_cast<std::ptrdiff_t>(scored); outcome != outcomes.end();
         ++outcome)
        flops_saved += outcome->flops_saved;
    return flops_saved;
}

}  // namespace marconi
