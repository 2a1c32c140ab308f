#include "marconi/tuning/schedule.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace marconi {
namespace {

void require(bool holds, const std::string& rule) {
    if (!holds) throw std::invalid_argument(rule);
}

}  // namespace

void validate(const TuningOptions& options) {
    require(options.bootstrap_multiplier >= 1 && options.bootstrap_multiplier <= 50,
            "bootstrap_multiplier must be in [1, 50], got " + std::to_string(options.bootstrap_multiplier));
    require(options.min_window_requests >= 1, "min_window_requests must be >= 1, got 0");
    require(options.max_window_requests >= options.min_window_requests,
            "max_window_requests must be at least min_window_requests (" +
                std::to_string(options.min_window_requests) + "), got " +
                std::to_string(options.max_window_requests));
    require(options.hit_rate_drop > 0 && options.hit_rate_drop <= 1,
            "hit_rate_drop must be in (0, 1], got " + std::to_string(options.hit_rate_drop));
}

TuningSchedule::TuningSchedule(const TuningOptions& options) : options_(options) {
    validate(options);
}

TuningSchedule::Event TuningSchedule::request_started(std::uint32_t hit_tokens, std::uint32_t prompt_tokens,
                                                      bool has_evicted) {
    ++requests_;
    if (phase_ == Phase::kDone) return Event::kNone;
    if (phase_ == Phase::kWaiting) {
        if (!has_evicted) return Event::kNone;
        open();
        return Event::kOpen;
    }
    count(hit_tokens, prompt_tokens);
    if (window_count_ < window_requests_ && !has_dropped()) return Event::kNone;
    close();
    return Event::kClose;
}

void TuningSchedule::open() {
    const bool is_first = first_eviction_ == 0;
    if (is_first) first_eviction_ = requests_;
    const double wanted = options_.bootstrap_multiplier * static_cast<double>(first_eviction_);
    const auto bounded =
        static_cast<std::size_t>(std::clamp(wanted, static_cast<double>(options_.min_window_requests),
                                            static_cast<double>(options_.max_window_requests)));
    if (is_first) first_window_requests_ = bounded;
    window_requests_ =
        is_first ? bounded : std::max(first_window_requests_, options_.retune_interval_requests);
    phase_ = Phase::kCollecting;
}

void TuningSchedule::close() {
    last_rate_ = window_.rate();
    window_ = recent_ = {};
    recent_requests_.clear();
    window_count_ = 0;
    phase_ = options_.retune_interval_requests > 0 ? Phase::kWaiting : Phase::kDone;
}

void TuningSchedule::count(std::uint32_t hit_tokens, std::uint32_t prompt_tokens) {
    ++window_count_;
    for (Tokens* sum : {&window_, &recent_}) {
        sum->hit += hit_tokens;
        sum->prompt += prompt_tokens;
    }
    recent_requests_.emplace_back(hit_tokens, prompt_tokens);
    if (recent_requests_.size() <= first_window_requests_ / 2) return;
    recent_.hit -= recent_requests_.front().first;
    recent_.prompt -= recent_requests_.front().second;
    recent_requests_.pop_front();
}

bool TuningSchedule::has_dropped() const {
    return window_count_ >= first_window_requests_ &&
           recent_.rate() < (1 - options_.hit_rate_drop) * last_rate_;
}

}  // namespace marconi
