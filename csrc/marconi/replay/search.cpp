#include "marconi/replay/search.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace marconi {

Search::Search(std::shared_ptr<const Trace> trace, std::vector<ReplayOptions> runs, int threads)
    : trace_(std::move(trace)), runs_(std::move(runs)), results_(runs_.size()) {
    if (threads < 1) throw std::invalid_argument("threads must be >= 1, got " + std::to_string(threads));
    for (const ReplayOptions& options : runs_) {
        validate(options);
        const std::uint32_t grid = required_grid_tokens(options);
        const auto is_same_grid = [&](const auto& cut) { return cut.first == grid; };
        if (grid > 1 && std::none_of(cut_traces_.begin(), cut_traces_.end(), is_same_grid))
            cut_traces_.emplace_back(grid, std::make_unique<const Trace>(cut_at_grid(*trace_, grid)));
    }
    const auto workers = std::min(runs_.size(), static_cast<std::size_t>(threads));
    threads_.reserve(workers);
    for (std::size_t i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
}

Search::~Search() {
    cancel();
    join();
}

const std::vector<ReplayResult>& Search::results() {
    join();
    if (failure_) std::rethrow_exception(failure_);
    return results_;
}

void Search::join() {
    const std::lock_guard<std::mutex> guard(join_mutex_);
    for (std::thread& thread : threads_) {
        if (thread.joinable()) thread.join();
    }
}

void Search::work() {
    try {
        for (std::size_t run = next_run_++; run < runs_.size() && !is_cancelled_; run = next_run_++) {
            results_[run] =
                replay(trace_for(runs_[run]), runs_[run], Progress(&is_cancelled_, &served_requests_));
        }
    } catch (...) {
        const std::lock_guard<std::mutex> guard(failure_mutex_);
        failure_ = std::current_exception();
        is_cancelled_ = true;
    }
    ++finished_threads_;
}

const Trace& Search::trace_for(const ReplayOptions& options) {
    const std::uint32_t grid = required_grid_tokens(options);
    for (const auto& [cut_grid, trace] : cut_traces_) {
        if (cut_grid == grid) return *trace;
    }
    return *trace_;
}

}  // namespace marconi
