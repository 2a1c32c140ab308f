#include "marconi/pools/pool_cache.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "marconi/pools/lru_order.h"
#include "marconi/pools/utility_order.h"

namespace marconi {

std::unique_ptr<EvictionOrder> make_eviction_order(const PolicyOptions& options, const PrefixCost& cost) {
    if (options.name == "sglang" || options.name == "sglang-native") return std::make_unique<LruOrder>();
    if (options.name == "marconi")
        return std::make_unique<UtilityOrder>(cost,
                                              UtilityForm{options.alpha, options.recency, options.bytes});
    throw std::invalid_argument(
        "with the budget sglang, policy must be none, sglang, sglang-native, marconi "
        "or belady, got \"" +
        options.name + "\"");
}

PoolAdmission pool_admission(const PolicyOptions& options) {
    PoolAdmission admission;
    admission.at_branch_point = options.name != "sglang-native";
    admission.at_chunk_ends = options.name == "sglang-native";
    admission.is_last_token_exact = options.name != "sglang-native";
    admission.at_prompt_end = options.admits_prompt_end;
    admission.min_branch_gain_tokens = options.min_branch_gain_tokens;
    return admission;
}

PoolCache::PoolCache(const Trace& trace, const PoolSizes& sizes, const PoolAdmission& admission,
                     const PrefixCost& cost, std::unique_ptr<EvictionOrder> order)
    : trace_(trace),
      sizes_(sizes),
      admission_(admission),
      cost_(cost),
      order_(std::move(order)),
      tree_(trace.tree, *order_, sizes.page_tokens),
      free_kv_tokens_(sizes.kv_tokens),
      free_states_(sizes.states),
      outcomes_(trace.requests.size()) {}

PoolCache::PoolCache(const PoolCache& other, std::unique_ptr<EvictionOrder> order)
    : trace_(other.trace_),
      sizes_(other.sizes_),
      admission_(other.admission_),
      cost_(other.cost_),
      order_(std::move(order)),
      tree_(other.tree_, *order_),
      free_kv_tokens_(other.free_kv_tokens_),
      free_states_(other.free_states_),
      in_flight_(other.in_flight_),
      had_state_at_(other.had_state_at_),
      outcomes_(other.outcomes_),
      has_evicted_(other.has_evicted_) {}

void PoolCache::restore(const std::vector<LiveNode>& nodes, const std::vector<NodeId>& ends) {
    tree_.restore(nodes, ends);
    free_kv_tokens_ -= tree_.kv_tokens();
    free_states_ -= tree_.states();
}

// ---- requests ----

void PoolCache::arrive(std::size_t request) {
    const Request& arriving = trace_.requests.at(request);
    const auto [entry, is_new] =
        in_flight_.try_emplace(request, InFlight{SequencePath(trace_.tree, arriving.sequence_end)});
    if (!is_new) throw std::invalid_argument("request " + std::to_string(request) + " is in flight already");
    InFlight& arrived = entry->second;
    const PoolTree::Match match = tree_.match(arrived.path, prompt_key_tokens(arriving));
    arrived.branch_tokens = branch_point(match);
    if (match.hit != PoolTree::kTreeRoot) {
        tree_.lock(match.hit);
        arrived.slots = take_state_slot(request) ? 1 : 0;
        tree_.unlock(match.hit);
        if (arrived.slots > 0) {
            arrived.node = match.hit;
            arrived.computed_tokens = arrived.published_tokens = match.hit_tokens;
        } else {
            arrived.branch_tokens = 0;
        }
    }
    count_tokens(request, arrived);
}

std::uint32_t PoolCache::branch_point(const PoolTree::Match& match) const {
    // A prompt that goes on from a node without children only extends it: its own end supersedes a state
    // there.
    if (!admission_.at_branch_point || match.last == PoolTree::kTreeRoot || !tree_.has_children(match.last))
        return 0;
    const std::uint32_t gain = (match.kv_tokens - match.hit_tokens) / sizes_.grid_tokens * sizes_.grid_tokens;
    return gain >= std::max(1U, admission_.min_branch_gain_tokens) ? match.hit_tokens + gain : 0;
}

void PoolCache::start(std::size_t request) {
    InFlight& starting = in_flight(request);
    const std::uint32_t end = trace_.requests[request].prompt_tokens;
    tree_.lock(starting.node);
    for (; starting.slots < sizes_.slots_per_request; ++starting.slots) {
        if (!take_state_slot(request))
            throw std::runtime_error("every state slot is in use: the request cannot run");
    }
    starting.is_running = true;
    while (starting.computed_tokens < end) {
        const std::uint32_t computed = starting.computed_tokens;
        std::uint32_t piece_end = std::min(end, computed + sizes_.chunk_tokens);
        if (admission_.at_branch_point && computed < starting.branch_tokens &&
            starting.branch_tokens < piece_end)
            piece_end = starting.branch_tokens;
        prefill_to(request, starting, piece_end);
    }
    note_bytes(outcomes_[request]);
}

void PoolCache::prefill_to(std::size_t request, InFlight& running, std::uint32_t end) {
    const std::uint32_t start = running.computed_tokens;
    compute_kv(request, running, end);
    running.tracked_tokens = tracked_in(running, start, end);
    if (running.tracked_tokens == 0) return;
    const bool with_state = wants_state(trace_.requests[request], running) && take_state_slot(request);
    publish(running, running.tracked_tokens, with_state);
}

std::uint32_t PoolCache::tracked_in(const InFlight& running, std::uint32_t start, std::uint32_t end) const {
    const std::uint32_t grid = sizes_.grid_tokens;
    if (end - start < grid) return running.tracked_tokens;
    const std::uint32_t last = start + (end - start) / grid * grid;
    // Of a prefill that is not split SGLang tracks the branch point instead of the end.
    const std::uint32_t branch = running.branch_tokens;
    const bool passes_branch = branch > start && branch < last && (branch - start) % grid == 0;
    return passes_branch ? branch : last;
}

bool PoolCache::wants_state(const Request& request, const InFlight& running) const {
    if (admission_.at_chunk_ends || running.tracked_tokens == running.branch_tokens) return true;
    return admission_.at_prompt_end && running.computed_tokens >= request.prompt_tokens;
}

void PoolCache::finish(std::size_t request) {
    InFlight& finishing = in_flight(request);
    if (!finishing.is_running)
        throw std::invalid_argument("request " + std::to_string(request) + " did not start");
    const std::uint32_t end = final_tokens(trace_.requests[request]);
    compute_kv(request, finishing, end);
    finishing.tracked_tokens = tracked_last(trace_.requests[request], finishing);
    if (finishing.tracked_tokens > 0) {
        // One of its own slots goes to the tree.
        --finishing.slots;
        publish(finishing, finishing.tracked_tokens, true);
    }
    free_states_ += finishing.slots;
    free_kv_tokens_ += slots_for(finishing.computed_tokens) - finishing.published_tokens;
    tree_.unlock(finishing.node);
    Outcome& outcome = outcomes_[request];
    outcome.is_cached = true;
    note_bytes(outcome);
    in_flight_.erase(request);
}

std::uint32_t PoolCache::tracked_last(const Request& request, const InFlight& running) const {
    const std::uint32_t end = final_tokens(request);
    const bool is_exact = sizes_.grid_tokens == 1 || admission_.is_last_token_exact;
    if (is_exact && end % sizes_.page_tokens == 0) return end;
    const std::uint32_t interval = sizes_.track_interval_tokens;
    const std::uint32_t decoded = interval > 0 ? end / interval * interval : 0;
    return decoded > request.prompt_tokens ? decoded : running.tracked_tokens;
}

void PoolCache::abort(std::size_t request) {
    const InFlight& leaving = in_flight(request);
    if (leaving.is_running) {
        free_kv_tokens_ += slots_for(leaving.computed_tokens) - leaving.published_tokens;
        tree_.unlock(leaving.node);
    }
    free_states_ += leaving.slots;
    in_flight_.erase(request);
}

void PoolCache::refuse(std::size_t request) {
    const Request& refused = trace_.requests.at(request);
    Outcome& outcome = outcomes_[request];
    outcome.not_admitted_tokens = refused.seen_tokens;
    outcome.never_seen_tokens = refused.prompt_tokens - refused.seen_tokens;
    note_bytes(outcome);
}

PoolCache::InFlight& PoolCache::in_flight(std::size_t request) {
    const auto found = in_flight_.find(request);
    if (found == in_flight_.end())
        throw std::invalid_argument("request " + std::to_string(request) + " is not in flight");
    return found->second;
}

void PoolCache::publish(InFlight& running, std::uint32_t tokens, bool with_state) {
    // Of a block trace the last tokens of a sequence are not known.
    tokens = std::min(tokens, running.path.tokens());
    const PoolTree::Inserted inserted = tree_.insert(running.path, tokens);
    const std::uint32_t published = tree_.depth_tokens(inserted.node);
    // Slots of what the tree had already are freed.
    free_kv_tokens_ += inserted.present_tokens > running.published_tokens
                           ? inserted.present_tokens - running.published_tokens
                           : 0;
    running.published_tokens = published;
    // A state between two pages has no key.
    const bool has_key = published == tokens && inserted.node != PoolTree::kTreeRoot;
    if (with_state && has_key && !tree_.has_state(inserted.node)) {
        tree_.add_state(inserted.node);
        std::vector<std::uint32_t>& depths = had_state_at_[running.path.node_at(published)];
        if (std::find(depths.begin(), depths.end(), published) == depths.end()) depths.push_back(published);
    } else if (with_state) {
        ++free_states_;
        if (has_key) order_->touch_admitted(inserted.node);
    }
    tree_.unlock(running.node);
    tree_.lock(inserted.node);
    running.node = inserted.node;
}

// ---- what became of the prompt's tokens ----

void PoolCache::count_tokens(std::size_t request, const InFlight& arrived) {
    const Request& counted = trace_.requests[request];
    const std::uint32_t key_tokens = prompt_key_tokens(counted);
    Outcome& outcome = outcomes_[request];
    outcome.hit_tokens = arrived.computed_tokens;
    outcome.flops_saved = cost_.prefill_flops(outcome.hit_tokens);
    std::uint32_t once_usable = outcome.hit_tokens;
    for (const NodeId prefix : arrived.path.nodes()) {
        const auto depths = had_state_at_.find(prefix);
        if (depths == had_state_at_.end()) continue;
        for (const std::uint32_t depth : depths->second) {
            if (depth <= key_tokens) once_usable = std::max(once_usable, depth);
        }
    }
    std::uint32_t soon_usable = once_usable;
    for (const auto& [other, running] : in_flight_) {
        if (!running.is_running) continue;
        const std::uint32_t end = std::min(final_tokens(trace_.requests[other]), running.path.tokens());
        if (end == 0 || end > key_tokens) continue;
        if (arrived.path.shared_tokens(running.path.node_at(end), end) == end)
            soon_usable = std::max(soon_usable, end);
    }
    const std::uint32_t seen = std::max(counted.seen_tokens, soon_usable);
    outcome.evicted_tokens = once_usable - outcome.hit_tokens;
    outcome.in_flight_tokens = soon_usable - once_usable;
    outcome.not_admitted_tokens = seen - soon_usable;
    outcome.never_seen_tokens = counted.prompt_tokens - seen;
}

void PoolCache::note_bytes(Outcome& outcome) const {
    outcome.kv_bytes = tree_.kv_tokens() * cost_.kv_bytes_per_token;
    outcome.state_bytes = tree_.states() * cost_.state_bytes;
}

// ---- slots ----

void PoolCache::compute_kv(std::size_t request, InFlight& running, std::uint32_t tokens) {
    const std::int64_t wanted = slots_for(tokens) - slots_for(running.computed_tokens);
    while (free_kv_tokens_ < wanted) {
        // Decoding takes its slots one by one: what is free goes before anything is evicted.
        if (!evict_leaf(outcomes_[request]))
            throw std::runtime_error("the KV pool is too small for the running requests");
    }
    free_kv_tokens_ -= wanted;
    running.computed_tokens = tokens;
}

bool PoolCache::take_state_slot(std::size_t request) {
    if (free_states_ == 0 && !evict_state(outcomes_[request])) return false;
    --free_states_;
    return true;
}

bool PoolCache::evict_state(Outcome& outcome) {
    const std::optional<TreeNodeId> victim = order_->state_victim();
    if (!victim) return false;
    if (tree_.is_leaf(*victim)) {
        remove_leaf(*victim, outcome);
    } else {
        ++outcome.inner_victims;
        has_evicted_ = true;
        tree_.remove_state(*victim);
        ++free_states_;
    }
    return true;
}

bool PoolCache::evict_leaf(Outcome& outcome) {
    const std::optional<TreeNodeId> victim = order_->leaf_victim();
    if (!victim) return false;
    remove_leaf(*victim, outcome);
    return true;
}

void PoolCache::remove_leaf(TreeNodeId leaf, Outcome& outcome) {
    ++outcome.leaf_victims;
    has_evicted_ = true;
    if (tree_.has_state(leaf)) ++free_states_;
    free_kv_tokens_ += tree_.remove_leaf(leaf);
}

std::int64_t PoolCache::reserved_kv_tokens() const {
    std::int64_t reserved = 0;
    for (const auto& [request, running] : in_flight_) {
        if (!running.is_running) continue;
        reserved += slots_for(final_tokens(trace_.requests[request])) - slots_for(running.computed_tokens);
    }
    return reserved;
}

bool PoolCache::has_room_for(std::size_t request) const {
    const Request& wanted = trace_.requests.at(request);
    const SequencePath path(trace_.tree, wanted.sequence_end);
    const PoolTree::Match match = tree_.peek(path, prompt_key_tokens(wanted));
    const bool hit_is_locked = match.hit == PoolTree::kTreeRoot || tree_.is_locked(match.hit);
    const std::int64_t evictable_states = tree_.states() - tree_.locked_states() - (hit_is_locked ? 0 : 1);
    if (free_states_ + evictable_states < sizes_.slots_per_request) return false;
    const std::int64_t evictable_kv =
        tree_.kv_tokens() - tree_.locked_kv_tokens() - tree_.unlocked_kv_tokens(match.hit);
    const std::int64_t needed = slots_for(final_tokens(wanted)) - match.hit_tokens;
    return free_kv_tokens_ + evictable_kv - reserved_kv_tokens() >= needed;
}

}  // namespace marconi
