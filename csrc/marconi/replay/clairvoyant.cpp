#include "marconi/replay/clairvoyant.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace marconi {
namespace {

struct Choice {
    double byte_requests;
    double tokens;
    double value;
};

// A step of a request's hull: from one choice to the next better one.
struct Step {
    double byte_requests;
    double tokens;
    double value;
    std::uint32_t request;

    [[nodiscard]] double density() const { return byte_requests > 0 ? value / byte_requests : HUGE_VAL; }
};

// Keeps the upper hull of (byte_requests, value) over the origin.
void append_hull_steps(std::vector<Choice>& choices, std::uint32_t request, std::vector<Step>& steps) {
    std::sort(choices.begin(), choices.end(), [](const Choice& p, const Choice& q) {
        return p.byte_requests < q.byte_requests || (p.byte_requests == q.byte_requests && p.value > q.value);
    });
    std::vector<Choice> hull{{0, 0, 0}};
    for (const Choice& choice : choices) {
        if (choice.value <= hull.back().value) continue;
        while (hull.size() > 1) {
            const Choice& last = hull.back();
            const Choice& before = hull[hull.size() - 2];
            const double to_last =
                (last.value - before.value) * (choice.byte_requests - before.byte_requests);
            const double to_new = (choice.value - before.value) * (last.byte_requests - before.byte_requests);
            if (to_last > to_new) break;
            hull.pop_back();
        }
        hull.push_back(choice);
    }
    for (std::size_t i = 1; i < hull.size(); ++i) {
        steps.push_back({hull[i].byte_requests - hull[i - 1].byte_requests,
                         hull[i].tokens - hull[i - 1].tokens, hull[i].value - hull[i - 1].value, request});
    }
}

class Bound {
  public:
    Bound(const Trace& trace, const PrefixCost& cost) : trace_(trace), cost_(cost) {}

    // Steps of all requests, by falling density. `value_of` maps hit tokens to what is to be maximised.
    template <typename Value>
    std::vector<Step> steps(Value value_of, const Progress& progress) {
        last_pass_.assign(trace_.tree.size(), 0);
        std::vector<Step> steps;
        for (std::uint32_t i = 0; i < trace_.requests.size() && !progress.is_cancelled(); ++i) {
            collect_choices(i, value_of);
            append_hull_steps(choices_, i, steps);
            trace_.tree.path_to(trace_.requests[i].sequence_end, path_);
            for (const NodeId node : path_) last_pass_[node] = i + 1;
            progress.request_served();
        }
        std::stable_sort(steps.begin(), steps.end(),
                         [](const Step& p, const Step& q) { return p.density() > q.density(); });
        return steps;
    }

  private:
    template <typename Value>
    void collect_choices(std::uint32_t i, Value value_of) {
        choices_.clear();
        trace_.tree.path_to(trace_.requests[i].prompt_end, path_);
        double kv_byte_requests = 0;
        for (const NodeId node : path_) {
            const std::uint32_t depth = trace_.tree.depth_tokens(node);
            if (last_pass_[node] == 0) break;
            const double waited = i + 1 - last_pass_[node];
            const double edge_tokens = trace_.tree.edge_tokens(node);
            kv_byte_requests += waited * edge_tokens * static_cast<double>(cost_.kv_bytes_per_token);
            // A hit leaves one token to compute.
            const double tokens = std::min(depth, trace_.requests[i].prompt_tokens - 1);
            const double bytes = static_cast<double>(cost_.state_bytes) -
                                 (depth - tokens) * static_cast<double>(cost_.kv_bytes_per_token);
            choices_.push_back({std::max(0.0, kv_byte_requests + waited * bytes), tokens, value_of(tokens)});
        }
    }

    const Trace& trace_;
    const PrefixCost& cost_;
    // Number of the last request through a node, from 1; 0 before the first.
    std::vector<std::uint32_t> last_pass_;
    std::vector<NodeId> path_;
    std::vector<Choice> choices_;
};

// Takes the densest steps, calls take(step, fraction of it).
template <typename Take>
void fill(const std::vector<Step>& steps, double byte_requests, Take take) {
    for (const Step& step : steps) {
        const double fraction =
            step.byte_requests <= byte_requests ? 1.0 : std::max(0.0, byte_requests / step.byte_requests);
        take(step, fraction);
        byte_requests -= step.byte_requests;
        if (byte_requests <= 0) return;
    }
}

}  // namespace

ReplayResult clairvoyant_bound(const Trace& trace, const PrefixCost& cost, std::int64_t capacity_bytes,
                               const Progress& progress) {
    ReplayResult result;
    const std::size_t requests = trace.requests.size();
    result.outcomes.resize(requests);
    if (requests == 0) return result;
    const double total = static_cast<double>(capacity_bytes) * static_cast<double>(requests - 1);
    Bound bound(trace, cost);

    std::vector<double> hit_tokens(requests, 0);
    fill(bound.steps([](double tokens) { return tokens; }, progress), total,
         [&](const Step& step, double fraction) {
             hit_tokens[step.request] += fraction * step.tokens;
             result.hit_tokens += fraction * step.tokens;
         });
    fill(bound.steps([&](double tokens) { return cost.prefill_flops(tokens); }, progress.uncounted()), total,
         [&](const Step& step, double fraction) { result.flops_saved += fraction * step.value; });

    for (std::size_t i = 0; i < requests; ++i) {
        Outcome& outcome = result.outcomes[i];
        const Request& request = trace.requests[i];
        outcome.hit_tokens = static_cast<std::uint32_t>(hit_tokens[i]);
        outcome.never_seen_tokens = request.prompt_tokens - request.seen_tokens;
        outcome.evicted_tokens = request.seen_tokens - outcome.hit_tokens;
        outcome.flops_saved = cost.prefill_flops(outcome.hit_tokens);
    }
    return result;
}

}  // namespace marconi
