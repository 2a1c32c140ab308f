// Many replays at once in native threads over one shared trace.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "marconi/replay/replay.h"
#include "marconi/trace/trace.h"

namespace marconi {

// Starts on construction, stops and joins on destruction. Results do not depend on the number of threads:
// each replay is its own and has its own cache.
class Search {
  public:
    // Throws std::invalid_argument for options that are not valid or threads < 1.
    Search(std::shared_ptr<const Trace> trace, std::vector<ReplayOptions> runs, int threads);
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;
    ~Search();

    void cancel() { is_cancelled_ = true; }
    [[nodiscard]] bool is_cancelled() const { return is_cancelled_; }
    [[nodiscard]] bool is_done() const { return finished_threads_ == threads_.size(); }
    [[nodiscard]] std::uint64_t served_requests() const { return served_requests_; }
    [[nodiscard]] std::uint64_t total_requests() const { return trace_->requests.size() * runs_.size(); }

    // Waits for the end; in the order of the runs, cut short where cancelled. Rethrows what a replay threw.
    const std::vector<ReplayResult>& results();

  private:
    void join();
    void work();
    const Trace& trace_for(const ReplayOptions& options);

    std::shared_ptr<const Trace> trace_;
    std::vector<ReplayOptions> runs_;
    std::vector<ReplayResult> results_;
    // The trace on the grids that the runs require, made before the threads start.
    std::vector<std::pair<std::uint32_t, std::unique_ptr<const Trace>>> cut_traces_;
    std::atomic<std::size_t> next_run_{0};
    std::atomic<std::size_t> finished_threads_{0};
    std::atomic<std::uint64_t> served_requests_{0};
    std::atomic<bool> is_cancelled_{false};
    std::mutex join_mutex_;
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
    std::vector<std::thread> threads_;
};

}  // namespace marconi
