#include "marconi/pools/service.h"

#include <algorithm>
#include <limits>

namespace marconi {

Service::Service(const Trace& trace, PoolCache& cache, const ServiceModel& model, std::size_t first,
                 std::size_t last)
    : trace_(trace), cache_(cache), model_(model), first_(first), next_(first), last_(last) {}

void Service::run(const Progress& progress, ServiceObserver& observer) {
    while ((next_ < last_ || !running_.empty()) && !progress.is_cancelled()) {
        finish_due(observer);
        if (next_ >= last_ || trace_.requests[next_].arrival_s > now_s_ || !next_can_start()) {
            advance();
            continue;
        }
        start_next();
        observer.started(next_++);
        progress.request_served();
    }
}

void Service::finish_due(ServiceObserver& observer) {
    while (!running_.empty() && running_.begin()->first <= now_s_) {
        const std::size_t request = running_.begin()->second;
        cache_.finish(request);
        running_.erase(running_.begin());
        observer.finished(request);
    }
}

bool Service::next_can_start() const {
    if (running_.empty()) return prefill_done_s_ <= now_s_;  // or never
    return prefill_done_s_ <= now_s_ && running_.size() < model_.max_running_requests &&
           cache_.has_room_for(next_);
}

void Service::start_next() {
    const Request& request = trace_.requests[next_];
    if (!cache_.has_room_for(next_)) {
        cache_.refuse(next_);
        prefill_done_s_ = now_s_ + model_.prefill_s_per_token * request.prompt_tokens;
        return;
    }
    cache_.arrive(next_);
    cache_.start(next_);
    const std::uint32_t computed = request.prompt_tokens - cache_.outcome(next_).hit_tokens;
    prefill_done_s_ = now_s_ + model_.prefill_s_per_token * computed;
    running_.emplace(prefill_done_s_ + model_.decode_s_per_token * request.reply_tokens, next_);
}

void Service::advance() {
    double next_s = std::numeric_limits<double>::infinity();
    if (next_ < last_) {
        const double ready_s = std::max(trace_.requests[next_].arrival_s, prefill_done_s_);
        if (ready_s > now_s_) next_s = ready_s;
    }
    if (!running_.empty()) next_s = std::min(next_s, running_.begin()->first);
    now_s_ = next_s;
}

}  // namespace marconi
