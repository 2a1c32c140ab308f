// SGLang's cache for hybrid models, simulated: a pool of KV slots, a pool of state slots, requests in flight.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "marconi/policies/policy.h"
#include "marconi/pools/pool_tree.h"
#include "marconi/prefix_cost.h"
#include "marconi/replay/outcome.h"
#include "marconi/trace/trace.h"

namespace marconi {

struct PoolSizes {
    std::int64_t kv_tokens = 0;
    std::int64_t states = 0;
    std::uint32_t page_tokens = 1;
    // Tokens of a prefill that SGLang computes at once (--chunked-prefill-size).
    std::uint32_t chunk_tokens = 8192;
    // A prefill leaves states so many tokens apart, from where it resumes on; 1: wherever it stops
    // (no_buffer).
    std::uint32_t grid_tokens = 1;
    // Tokens between the states that decoding leaves; 0: none.
    std::uint32_t track_interval_tokens = 0;
    // State slots that a running request holds: extra_buffer takes two more to track in.
    std::uint32_t slots_per_request = 1;
};

// Which states stay in the tree, next to the one after the last decoded token.
struct PoolAdmission {
    // Where the prompt leaves the tree; the prefill is split there.
    bool at_branch_point = true;
    // After every chunk of the prefill, and after the prompt: what SGLang does.
    bool at_chunk_ends = false;
    // Exactly there, or at the last state that the request left on its way.
    bool is_last_token_exact = true;
    bool at_prompt_end = false;
    std::uint32_t min_branch_gain_tokens = 32;
};

// The order and admission of a policy by name: sglang, sglang-native or marconi. Throws
// std::invalid_argument for others.
std::unique_ptr<EvictionOrder> make_eviction_order(const PolicyOptions& options, const PrefixCost& cost);
PoolAdmission pool_admission(const PolicyOptions& options);

// As the live cache does it. Look-ups and inserts take the prompt and what was
// decoded but for the last token, which has no KV. A request that runs holds state slots, the KV slots of
// what it computed, and a lock on the prefix that is in the tree.
class PoolCache {
  public:
    // The trace must outlive the cache.
    PoolCache(const Trace& trace, const PoolSizes& sizes, const PoolAdmission& admission,
              const PrefixCost& cost, std::unique_ptr<EvictionOrder> order);
    // The same cache with another order that knows its tree.
    PoolCache(const PoolCache& other, std::unique_ptr<EvictionOrder> order);

    // Takes up a live cache, see PoolTree::restore; requires an empty one and an order that was restored.
    void restore(const std::vector<LiveNode>& nodes, const std::vector<NodeId>& ends);

    // A request of the trace is looked up; a hit takes a state slot. Requires that it is not in flight.
    void arrive(std::size_t request);
    // The prompt is computed; requires arrive() and room.
    void start(std::size_t request);
    // The reply is decoded and the request leaves; requires start().
    void finish(std::size_t request);
    // A request that arrived and did not finish leaves; what it published stays.
    void abort(std::size_t request);

    // A request that does not fit is served uncached and evicts nothing.
    void refuse(std::size_t request);

    // Whether a request that has not arrived could run to its end now, evicting what no request uses.
    [[nodiscard]] bool has_room_for(std::size_t request) const;

    [[nodiscard]] const Outcome& outcome(std::size_t request) const { return outcomes_[request]; }
    [[nodiscard]] const std::vector<Outcome>& outcomes() const { return outcomes_; }
    [[nodiscard]] EvictionOrder& order() { return *order_; }
    [[nodiscard]] const EvictionOrder& order() const { return *order_; }
    [[nodiscard]] bool is_in_flight(std::size_t request) const { return in_flight_.count(request) != 0; }
    [[nodiscard]] bool has_evicted() const { return has_evicted_; }
    [[nodiscard]] std::int64_t free_kv_tokens() const { return free_kv_tokens_; }
    [[nodiscard]] std::int64_t free_states() const { return free_states_; }
    [[nodiscard]] const PoolTree& tree() const { return tree_; }

  private:
    struct InFlight {
        SequencePath path;
        TreeNodeId node = PoolTree::kTreeRoot;  // the hit, then what is locked
        std::uint32_t computed_tokens = 0;      // with KV
        std::uint32_t published_tokens = 0;     // of these in the tree
        std::uint32_t branch_tokens = 0;        // 0 without a branch point ahead
        std::uint32_t tracked_tokens = 0;       // where its latest state stands that a key can name
        std::uint32_t slots = 0;
        bool is_running = false;
    };

    [[nodiscard]] std::uint32_t prompt_key_tokens(const Request& request) const {
        return request.prompt_tokens > 0 ? request.prompt_tokens - 1 : 0;
    }
    [[nodiscard]] static std::uint32_t final_tokens(const Request& request) {
        return request.prompt_tokens + (request.reply_tokens > 0 ? request.reply_tokens - 1 : 0);
    }
    // Slots that the running requests will still take.
    [[nodiscard]] std::int64_t reserved_kv_tokens() const;
    [[nodiscard]] std::int64_t slots_for(std::uint32_t tokens) const {
        return (static_cast<std::int64_t>(tokens) + sizes_.page_tokens - 1) / sizes_.page_tokens *
               sizes_.page_tokens;
    }
    InFlight& in_flight(std::size_t request);

    void count_tokens(std::size_t request, const InFlight& arrived);
    [[nodiscard]] std::uint32_t branch_point(const PoolTree::Match& match) const;
    void prefill_to(std::size_t request, InFlight& running, std::uint32_t end);
    [[nodiscard]] std::uint32_t tracked_in(const InFlight& running, std::uint32_t start,
                                           std::uint32_t end) const;
    [[nodiscard]] std::uint32_t tracked_last(const Request& request, const InFlight& running) const;
    [[nodiscard]] bool wants_state(const Request& request, const InFlight& running) const;
    // Puts what is computed up to `tokens` into the tree, with a state whose slot was taken; 0: nothing.
    void publish(InFlight& running, std::uint32_t tokens, bool with_state);
    void compute_kv(std::size_t request, InFlight& running, std::uint32_t tokens);

    // Takes a state slot, evicting one state if there is none; false if all are in use.
    bool take_state_slot(std::size_t request);
    bool evict_state(Outcome& outcome);
    bool evict_leaf(Outcome& outcome);
    void remove_leaf(TreeNodeId leaf, Outcome& outcome);
    void note_bytes(Outcome& outcome) const;

    const Trace& trace_;
    PoolSizes sizes_;
    PoolAdmission admission_;
    PrefixCost cost_;
    std::unique_ptr<EvictionOrder> order_;
    PoolTree tree_;
    std::int64_t free_kv_tokens_;
    std::int64_t free_states_;
    std::unordered_map<std::size_t, InFlight> in_flight_;
    // By prefix of the trace: depths in its edge at which a state ever was.
    std::unordered_map<NodeId, std::vector<std::uint32_t>> had_state_at_;
    std::vector<Outcome> outcomes_;
    bool has_evicted_ = false;
};

}  // namespace marconi
