#include "marconi/replay/pool_replay.h"

#include <memory>
#include <utility>
#include <vector>

#include "marconi/pools/utility_order.h"
#include "marconi/tuning/schedule.h"
#include "marconi/tuning/window.h"

namespace marconi {
namespace {

class Untuned final : public ServiceObserver {
  public:
    void finished(std::size_t /*request*/) override {}
    void started(std::size_t /*request*/) override {}
};

// Tunes as the live cache does, but that a search takes no time.
class OnlineTuning final : public ServiceObserver {
  public:
    OnlineTuning(PoolCache& cache, const Trace& trace, const ReplayOptions& options, const Progress& progress)
        : cache_(cache),
          trace_(trace),
          options_(options),
          progress_(progress.uncounted()),
          order_(dynamic_cast<UtilityOrder&>(cache.order())),
          schedule_(options.tuning) {}

    void finished(std::size_t request) override {
        if (opened_) steps_.push_back({Step::Kind::kFinish, request});
    }

    void started(std::size_t request) override {
        if (opened_) steps_.push_back({Step::Kind::kStart, request});
        const TuningSchedule::Event event = schedule_.request_started(
            cache_.outcome(request).hit_tokens, trace_.requests[request].prompt_tokens, cache_.has_evicted());
        if (event == TuningSchedule::Event::kOpen) open(request + 1);
        if (event == TuningSchedule::Event::kClose) tune(request + 1);
    }

    [[nodiscard]] std::vector<TunedWindow> take_windows() { return std::move(windows_); }

  private:
    void open(std::size_t first_request) {
        first_request_ = first_request;
        opened_ = std::make_unique<PoolCache>(cache_, order_.copy_in(order_.form()));
        steps_.clear();
    }

    void tune(std::size_t next_request) {
        std::vector<WindowScore> scores;
        scores.reserve(forms_.size());
        for (const UtilityForm& form : forms_)
            scores.push_back(replay_window(*opened_, steps_, form, progress_));
        opened_.reset();
        const std::size_t chosen = choose_form(scores, present_, options_.objective);
        TunedWindow window{first_request_, next_request - first_request_, present_, chosen, {}, {}};
        for (const WindowScore& score : scores) {
            window.hit_tokens.push_back(score.hit_tokens);
            window.flops_saved.push_back(score.flops_saved);
        }
        windows_.push_back(std::move(window));
        present_ = chosen;
        order_.set_form(forms_[chosen]);
    }

    PoolCache& cache_;
    const Trace& trace_;
    const ReplayOptions& options_;
    Progress progress_;
    UtilityOrder& order_;
    TuningSchedule schedule_;
    std::vector<UtilityForm> forms_ = tuning_forms();
    std::size_t present_ = 0;
    std::size_t first_request_ = 0;
    std::unique_ptr<PoolCache> opened_;
    std::vector<Step> steps_;
    std::vector<TunedWindow> windows_;
};

}  // namespace

ReplayResult replay_pools(const Trace& trace, std::size_t first, std::size_t last,
                          const ReplayOptions& options, const Progress& progress) {
    const bool tunes = options.tunes_alpha && options.policy.name == "marconi";
    PolicyOptions policy = options.policy;
    if (tunes) policy = {policy.name, 0, {}, {}, policy.min_branch_gain_tokens, policy.admits_prompt_end};
    PoolCache cache(trace, options.pools, pool_admission(policy), options.cost.total,
                    make_eviction_order(policy, options.cost.total));
    Service service(trace, cache, options.service, first, last);
    ReplayResult result;
    if (tunes) {
        OnlineTuning tuning(cache, trace, options, progress);
        service.run(progress, tuning);
        result.windows = tuning.take_windows();
    } else {
        Untuned untuned;
        service.run(progress, untuned);
    }
    const auto begin = cache.outcomes().begin() + static_cast<std::ptrdiff_t>(first);
    result.outcomes.assign(begin, begin + static_cast<std::ptrdiff_t>(service.started()));
    result.alpha = policy.alpha;
    if (const auto* order = dynamic_cast<const UtilityOrder*>(&cache.order()))
        result.alpha = order->form().alpha;
    if (!result.windows.empty()) {
        const TunedWindow& window = result.windows.front();
        result.tuned_after = static_cast<std::int64_t>(window.first_request + window.requests);
    }
    return result;
}

}  // namespace marconi
