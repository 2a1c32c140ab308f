// When requests start and finish: a server that computes one prefill at a time and decodes many requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "marconi/pools/pool_cache.h"
#include "marconi/replay/outcome.h"

namespace marconi {

struct ServiceModel {
    // 0: no time at all.
    double prefill_s_per_token = 0;
    double decode_s_per_token = 0;
    std::uint32_t max_running_requests = 256;
};

// Is told after each step.
class ServiceObserver {
  public:
    ServiceObserver() = default;
    ServiceObserver(const ServiceObserver&) = delete;
    ServiceObserver& operator=(const ServiceObserver&) = delete;
    virtual ~ServiceObserver() = default;
    virtual void finished(std::size_t request) = 0;
    // Or refused.
    virtual void started(std::size_t request) = 0;
};

// Requests are taken in the trace's order, each not before it arrived, when the prefill before it is done and
// the pools have room. One that would not fit an idle server is served uncached and evicts nothing. With a
// model that takes no time the requests run one by one.
class Service {
  public:
    // Requests from `first` to before `last`. Trace and cache must outlive the service.
    Service(const Trace& trace, PoolCache& cache, const ServiceModel& model, std::size_t first,
            std::size_t last);

    // A cancelled run stops early.
    void run(const Progress& progress, ServiceObserver& observer);

    // Requests that started or were refused.
    [[nodiscard]] std::size_t started() const { return next_ - first_; }

  private:
    void finish_due(ServiceObserver& observer);
    [[nodiscard]] bool next_can_start() const;
    void start_next();
    void advance();

    const Trace& trace_;
    PoolCache& cache_;
    ServiceModel model_;
    std::size_t first_;
    std::size_t next_;
    std::size_t last_;
    double now_s_ = 0;
    double prefill_done_s_ = 0;
    std::set<std::pair<double, std::size_t>> running_;  // by the time at which they finish
};

}  // namespace marconi
