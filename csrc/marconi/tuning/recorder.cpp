#include "marconi/tuning/recorder.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace marconi {
namespace {

// Ids become 1, 2, ... in their order, the root 0.
void rank_ids(std::vector<LiveNode>& nodes) {
    std::vector<TreeNodeId> ids;
    ids.reserve(nodes.size());
    for (const LiveNode& node : nodes) ids.push_back(node.id);
    std::sort(ids.begin(), ids.end());
    const auto rank = [&](TreeNodeId id) -> TreeNodeId {
        const auto found = std::lower_bound(ids.begin(), ids.end(), id);
        return found == ids.end() || *found != id ? PoolTree::kTreeRoot : found - ids.begin() + 1;
    };
    for (LiveNode& node : nodes) {
        node.id = rank(node.id);
        node.parent = rank(node.parent);
    }
}

}  // namespace

RecordedWindow::RecordedWindow(const WindowCache& cache, Trace trace, const std::vector<LiveNode>& nodes,
                               const std::vector<NodeId>& ends, std::uint64_t clock, std::vector<Step> steps)
    : trace_(std::move(trace)), steps_(std::move(steps)) {
    auto order = std::make_unique<UtilityOrder>(cache.cost, UtilityForm{});
    order->restore(nodes, clock);
    opened_ = std::make_unique<PoolCache>(trace_, cache.sizes, cache.admission, cache.cost, std::move(order));
    opened_->restore(nodes, ends);
}

WindowRecorder::WindowRecorder(const WindowCache& cache, std::size_t max_bytes)
    : cache_(cache), max_bytes_(max_bytes) {}

void WindowRecorder::open(std::vector<LiveNode> nodes, UnitSpan<std::uint32_t> edge_tokens,
                          std::uint64_t clock) {
    builder_ = {};
    steps_.clear();
    running_.clear();
    clock_ = clock;
    nodes_ = std::move(nodes);
    rank_ids(nodes_);
    // The builder's request that ends at a node, and its depth.
    std::vector<std::pair<std::size_t, std::uint32_t>> ends(nodes_.size() + 1);
    for (const LiveNode& node : nodes_) {
        const bool is_reached = node.parent == PoolTree::kTreeRoot || ends[node.parent].second > 0;
        if (!is_reached || node.tokens == 0 || node.tokens > edge_tokens.size)
            throw std::invalid_argument("the nodes of a tree must come parents first, with their tokens");
        const UnitSpan<std::uint32_t> edge{edge_tokens.data, node.tokens};
        edge_tokens = edge_tokens.from(node.tokens);
        const auto [base, depth] = ends[node.parent];
        const std::size_t request = node.parent == PoolTree::kTreeRoot
                                        ? builder_.add(edge, {nullptr, 0}, 0)
                                        : builder_.add_continuation(base, depth, edge, {nullptr, 0}, 0);
        ends[node.id] = {request, depth + node.tokens};
    }
}

void WindowRecorder::request_started(std::int64_t number, UnitSpan<std::uint32_t> prompt) {
    request_dropped(number);
    const std::size_t request = builder_.add(prompt, {nullptr, 0}, 0);
    running_.emplace(number, request);
    steps_.push_back({Step::Kind::kStart, request});
}

void WindowRecorder::request_finished(std::int64_t number, UnitSpan<std::uint32_t> reply) {
    const auto running = running_.find(number);
    if (running == running_.end()) return;
    builder_.set_reply(running->second, reply);
    steps_.push_back({Step::Kind::kFinish, running->second});
    running_.erase(running);
}

void WindowRecorder::request_dropped(std::int64_t number) {
    const auto running = running_.find(number);
    if (running == running_.end()) return;
    steps_.push_back({Step::Kind::kAbort, running->second});
    running_.erase(running);
}

std::size_t WindowRecorder::memory_bytes() const {
    return builder_.memory_bytes() + steps_.capacity() * sizeof(Step) + nodes_.capacity() * sizeof(LiveNode);
}

std::unique_ptr<RecordedWindow> WindowRecorder::close() {
    Trace trace = builder_.build();
    std::vector<NodeId> ends;
    ends.reserve(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) ends.push_back(trace.requests[i].prompt_end);
    auto window =
        std::make_unique<RecordedWindow>(cache_, std::move(trace), nodes_, ends, clock_, std::move(steps_));
    builder_ = {};
    nodes_.clear();
    steps_.clear();
    running_.clear();
    return window;
}

}  // namespace marconi
