// When to open a window, and when it holds enough requests to tune on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace marconi {

struct TuningOptions {
    // The first window holds so many times the requests before the first eviction (Marconi, section 4.3) ...
    double bootstrap_multiplier = 5;
    // ... within these bounds.
    std::size_t min_window_requests = 100;
    std::size_t max_window_requests = 5000;
    // Length of the windows that follow, one after the other; 0: there is one window.
    std::size_t retune_interval_requests = 2000;
    // A window as long as the first one closes early when the hit rate of its later half is lower than the
    // one of the window before by this share.
    double hit_rate_drop = 0.25;
};

// Throws std::invalid_argument naming the option.
void validate(const TuningOptions& options);

class TuningSchedule {
  public:
    enum class Phase : std::uint8_t { kWaiting, kCollecting, kDone };
    enum class Event : std::uint8_t { kNone, kOpen, kClose };

    explicit TuningSchedule(const TuningOptions& options);

    // A request started; whether anything was ever evicted. Says what to do after it.
    Event request_started(std::uint32_t hit_tokens, std::uint32_t prompt_tokens, bool has_evicted);
    // The recorder is full: the window closes after the next request.
    void close_early() { window_requests_ = std::min(window_requests_, window_count_ + 1); }

    [[nodiscard]] Phase phase() const { return phase_; }
    [[nodiscard]] std::size_t requests() const { return requests_; }
    // Requests before the first eviction, 0 while there was none.
    [[nodiscard]] std::size_t first_eviction() const { return first_eviction_; }
    [[nodiscard]] std::size_t window_requests() const { return window_requests_; }
    [[nodiscard]] std::size_t collected_requests() const { return window_count_; }

  private:
    struct Tokens {
        std::uint64_t hit = 0;
        std::uint64_t prompt = 0;
        [[nodiscard]] double rate() const {
            return prompt == 0 ? 0 : static_cast<double>(hit) / static_cast<double>(prompt);
        }
    };

    void open();
    void close();
    void count(std::uint32_t hit_tokens, std::uint32_t prompt_tokens);
    [[nodiscard]] bool has_dropped() const;

    TuningOptions options_;
    Phase phase_ = Phase::kWaiting;
    std::size_t requests_ = 0;
    std::size_t first_eviction_ = 0;
    std::size_t first_window_requests_ = 0;
    std::size_t window_requests_ = 0;
    std::size_t window_count_ = 0;
    Tokens window_;
    Tokens recent_;
    std::deque<std::pair<std::uint32_t, std::uint32_t>> recent_requests_;
    double last_rate_ = 0;
};

}  // namespace marconi
