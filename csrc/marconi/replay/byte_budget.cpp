#include "marconi/replay/byte_budget.h"

#include <algorithm>

namespace marconi {

ByteBudgetCache::ByteBudgetCache(const Trace& trace, const PolicyOptions& options, const PrefixCost& cost,
                                 std::int64_t capacity_bytes)
    : cache_(trace.tree, cost),
      policy_(make_policy(options, cache_)),
      capacity_bytes_(capacity_bytes),
      had_state_(trace.tree.size(), 0) {
    cache_.listen(policy_.get());
}

Outcome ByteBudgetCache::serve(const Request& request) {
    Outcome outcome;
    const Lookup lookup = look_up(request);
    count_tokens(request, lookup, outcome);
    policy_->touch_hit(cache_, lookup);

    chosen_.clear();
    policy_->choose_checkpoints(cache_, lookup, chosen_);
    keep_what_fits(chosen_);
    if (!chosen_.empty()) {
        admit(lookup, chosen_);
        evict_to_capacity(chosen_.back() + 1, outcome);
        outcome.is_cached = true;
    }
    outcome.kv_bytes = cache_.kv_bytes();
    outcome.state_bytes = cache_.state_bytes();
    return outcome;
}

Lookup ByteBudgetCache::look_up(const Request& request) {
    const PrefixTree& prefixes = cache_.prefixes();
    prefixes.path_to(request.sequence_end, path_);
    Lookup lookup{path_, 0, 0, 0, kRoot};
    if (request.prompt_end != kRoot) {
        const auto prompt_end = std::find(path_.begin(), path_.end(), request.prompt_end);
        lookup.prompt_nodes = static_cast<std::size_t>(prompt_end - path_.begin()) + 1;
    }
    for (const NodeId node : path_) {
        if (!cache_.has_kv(node)) break;
        const bool is_usable = lookup.cached_nodes < lookup.prompt_nodes && cache_.has_state(node) &&
                               prefixes.depth_tokens(node) < request.prompt_tokens;
        if (is_usable) lookup.hit = node;
        ++lookup.cached_nodes;
    }
    lookup.cached_prompt_nodes = std::min(lookup.cached_nodes, lookup.prompt_nodes);
    return lookup;
}

void ByteBudgetCache::count_tokens(const Request& request, const Lookup& lookup, Outcome& outcome) const {
    const PrefixTree& prefixes = cache_.prefixes();
    outcome.hit_tokens = prefixes.depth_tokens(lookup.hit);
    std::uint32_t once_usable = outcome.hit_tokens;
    for (std::size_t i = 0; i < lookup.prompt_nodes; ++i) {
        const std::uint32_t depth = prefixes.depth_tokens(path_[i]);
        if (had_state_[path_[i]] != 0 && depth < request.prompt_tokens)
            once_usable = std::max(once_usable, depth);
    }
    outcome.evicted_tokens = once_usable - outcome.hit_tokens;
    outcome.not_admitted_tokens = request.seen_tokens - once_usable;
    outcome.never_seen_tokens = request.prompt_tokens - request.seen_tokens;
    outcome.flops_saved = cache_.cost().prefill_flops(outcome.hit_tokens);
}

void ByteBudgetCache::keep_what_fits(Checkpoints& chosen) const {
    const PrefixCost& cost = cache_.cost();
    std::int64_t states = 0;
    std::size_t node = 0;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        for (; node < chosen[i]; ++node) states += cache_.has_state(path_[node]) ? 1 : 0;
        // The chosen node holds a state in any case.
        ++states;
        ++node;
        const std::int64_t kv_tokens = cache_.prefixes().depth_tokens(path_[chosen[i]]);
        if (states * cost.state_bytes + kv_tokens * cost.kv_bytes_per_token <= capacity_bytes_) continue;
        chosen.resize(policy_->keeps_what_fits() ? i : 0);
        return;
    }
}

void ByteBudgetCache::admit(const Lookup& lookup, const Checkpoints& chosen) {
    if (chosen.back() >= lookup.cached_nodes)
        cache_.add_kv(path_.data() + lookup.cached_nodes, path_.data() + chosen.back() + 1);
    // From the deepest: a new state tells those below it, and finds the next one at once.
    for (auto position = chosen.rbegin(); position != chosen.rend(); ++position) {
        const NodeId node = path_[*position];
        had_state_[node] = 1;
        if (!cache_.has_state(node)) cache_.add_state(node);
    }
    for (const std::size_t position : chosen) policy_->touch_admitted(path_[position]);
}

void ByteBudgetCache::evict_to_capacity(std::size_t locked_nodes, Outcome& outcome) {
    if (cache_.bytes() <= capacity_bytes_) return;
    for (std::size_t i = 0; i < locked_nodes; ++i) {
        if (cache_.has_state(path_[i])) policy_->lock(path_[i]);
    }
    while (cache_.bytes() > capacity_bytes_) {
        const NodeId victim = policy_->victim();
        ++(cache_.children(victim) == 0 ? outcome.leaf_victims : outcome.inner_victims);
        cache_.evict(victim);
    }
    for (std::size_t i = 0; i < locked_nodes; ++i) {
        if (cache_.has_state(path_[i])) policy_->unlock(path_[i]);
    }
}

}  // namespace marconi
