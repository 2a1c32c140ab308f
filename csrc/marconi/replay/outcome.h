// What became of each request of a replay.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace marconi {

// hit + never_seen + not_admitted + evicted + in_flight = prompt tokens.
struct Outcome {
    std::uint32_t hit_tokens = 0;
    // No earlier request had these tokens after this prefix.
    std::uint32_t never_seen_tokens = 0;
    // Seen, but no usable state was ever admitted at or after them.
    std::uint32_t not_admitted_tokens = 0;
    // A state that would have saved them was evicted.
    std::uint32_t evicted_tokens = 0;
    // A request that still ran would leave a state that saves them.
    std::uint32_t in_flight_tokens = 0;
    double flops_saved = 0;
    // Held after the request.
    std::int64_t kv_bytes = 0;
    std::int64_t state_bytes = 0;
    // Evicted for the request.
    std::uint32_t leaf_victims = 0;
    std::uint32_t inner_victims = 0;
    // What the request admits was kept, whole or as far as it fits.
    bool is_cached = false;
};

// A window that was tuned on.
struct TunedWindow {
    std::size_t first_request;
    std::size_t requests;
    // Positions among the forms that were tried.
    std::size_t present_form;
    std::size_t chosen_form;
    std::vector<double> hit_tokens;
    std::vector<double> flops_saved;
};

struct ReplayResult {
    std::vector<Outcome> outcomes;
    // At the end of the replay; differs from the start's when it was tuned.
    double alpha = 0;
    // Request after which alpha was tuned, -1 if never.
    std::int64_t tuned_after = -1;
    // With the budget sglang.
    std::vector<TunedWindow> windows;
    // Sums over the requests; fractional for a bound.
    double hit_tokens = 0;
    double flops_saved = 0;
};

// How a running replay is watched and stopped. Copies share what they point to.
class Progress {
  public:
    // Either may be null.
    Progress(const std::atomic<bool>* is_cancelled, std::atomic<std::uint64_t>* served_requests)
        : is_cancelled_(is_cancelled), served_requests_(served_requests) {}

    [[nodiscard]] bool is_cancelled() const { return is_cancelled_ != nullptr && *is_cancelled_; }
    void request_served() const {
        if (served_requests_ != nullptr) ++*served_requests_;
    }
    // For replays within a replay.
    [[nodiscard]] Progress uncounted() const { return {is_cancelled_, nullptr}; }

  private:
    const std::atomic<bool>* is_cancelled_;
    std::atomic<std::uint64_t>* served_requests_;
};

}  // namespace marconi
