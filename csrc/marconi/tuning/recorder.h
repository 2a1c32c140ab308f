// Records what a live cache was asked for, so that a window of it can be replayed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "marconi/pools/pool_cache.h"
#include "marconi/trace/trace_builder.h"
#include "marconi/tuning/window.h"

namespace marconi {

// The cache that is simulated in a window.
struct WindowCache {
    PoolSizes sizes;
    PoolAdmission admission;
    PrefixCost cost;
};

// A closed window: all that its replays need.
class RecordedWindow {
  public:
    RecordedWindow(const WindowCache& cache, Trace trace, const std::vector<LiveNode>& nodes,
                   const std::vector<NodeId>& ends, std::uint64_t clock, std::vector<Step> steps);

    // The cache as it was when the window opened.
    [[nodiscard]] const PoolCache& opened() const { return *opened_; }
    [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }

  private:
    Trace trace_;
    std::unique_ptr<PoolCache> opened_;
    std::vector<Step> steps_;
};

// Requests are named by a number of the caller's, which may be used again once they left.
class WindowRecorder {
  public:
    WindowRecorder(const WindowCache& cache, std::size_t max_bytes);

    // Takes up the live tree: its nodes, parents first, and the tokens of their edges one after the other.
    // A parent that is not among them is the root. Throws std::invalid_argument for what is no tree.
    void open(std::vector<LiveNode> nodes, UnitSpan<std::uint32_t> edge_tokens, std::uint64_t clock);
    // A number that is still in use leaves first.
    void request_started(std::int64_t number, UnitSpan<std::uint32_t> prompt);
    // Unknown numbers are passed over: the request started before the window.
    void request_finished(std::int64_t number, UnitSpan<std::uint32_t> reply);
    void request_dropped(std::int64_t number);

    [[nodiscard]] std::size_t memory_bytes() const;
    [[nodiscard]] bool is_full() const { return memory_bytes() >= max_bytes_; }

    std::unique_ptr<RecordedWindow> close();

  private:
    WindowCache cache_;
    std::size_t max_bytes_;
    TokenTraceBuilder builder_;
    std::vector<LiveNode> nodes_;  // ids by rank
    std::uint64_t clock_ = 0;
    std::vector<Step> steps_;
    std::unordered_map<std::int64_t, std::size_t> running_;
};

}  // namespace marconi
