#include "marconi/tuning/window_search.h"

#ifdef __linux__
#include <sys/resource.h>
#endif

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace marconi {
namespace {

void lower_priority() {
#ifdef __linux__
    // Of the calling thread alone; a refusal changes nothing that matters.
    constexpr int kLeastNice = 19;
    static_cast<void>(setpriority(PRIO_PROCESS, 0, kLeastNice));
#endif
}

}  // namespace

WindowSearch::WindowSearch(std::unique_ptr<RecordedWindow> window, int threads)
    : window_(std::move(window)), forms_(tuning_forms()), scores_(forms_.size()) {
    if (threads < 1) throw std::invalid_argument("threads must be >= 1, got " + std::to_string(threads));
    const auto workers = std::min(forms_.size(), static_cast<std::size_t>(threads));
    threads_.reserve(workers);
    for (std::size_t i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
}

WindowSearch::~WindowSearch() {
    cancel();
    join();
}

const std::vector<WindowScore>& WindowSearch::scores() {
    join();
    if (failure_) std::rethrow_exception(failure_);
    return scores_;
}

void WindowSearch::join() {
    for (std::thread& thread : threads_) {
        if (thread.joinable()) thread.join();
    }
}

void WindowSearch::work() {
    lower_priority();
    try {
        const Progress progress(&is_cancelled_, nullptr);
        for (std::size_t form = next_form_++; form < forms_.size() && !is_cancelled_; form = next_form_++)
            scores_[form] = replay_window(window_->opened(), window_->steps(), forms_[form], progress);
    } catch (...) {
        const std::scoped_lock guard(mutex_);
        failure_ = std::current_exception();
        is_cancelled_ = true;
    }
    ++finished_threads_;
}

}  // namespace marconi
