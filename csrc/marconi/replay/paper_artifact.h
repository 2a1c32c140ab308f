// The simulator of Marconi's authors, decision for decision, slips included: for comparison with their
// numbers.
//
// A logical clock; a request looks its prompt up, then inserts prompt + reply, which looks up again. Only the
// deepest fully matched node counts as a hit and is touched. Every node is one state and the KV of its edge.
// An insertion first asks for the bytes it adds (two states where it will branch), evicting its own path if
// it comes to that, and is made in any case. The slips in the score are noted where they are made.
#pragma once

#include <cstdint>
#include <vector>

#include "marconi/prefix_cost.h"
#include "marconi/replay/outcome.h"
#include "marconi/trace/trace.h"

namespace marconi {

// The cost model by kind of layer, which the artifact's efficiency needs: Marconi, table 1.
struct LayerwiseCost {
    PrefixCost total;
    double ssm_flops_per_token = 0;  // all layers
    double attention_linear_flops = 0;
    double attention_quadratic_flops = 0;  // one layer
    double attention_layers = 0;
    double mlp_flops_per_token = 0;  // one layer
    double mlp_layers = 0;

    // One attention layer.
    [[nodiscard]] double attention_flops(double tokens) const {
        return attention_linear_flops * tokens + attention_quadratic_flops * tokens * tokens;
    }
};

enum class ArtifactPolicy : std::uint8_t { kSglang, kMarconi };

class PaperArtifactCache {
  public:
    // The trace must outlive the cache.
    PaperArtifactCache(const Trace& trace, ArtifactPolicy policy, double alpha, const LayerwiseCost& cost,
                       std::int64_t capacity_bytes);

    Outcome serve(const Request& request);
    void set_alpha(double alpha) { alpha_ = alpha; }

  private:
    using Id = std::uint32_t;
    static constexpr Id kNone = UINT32_MAX;

    struct Node {
        NodeId end;
        Id parent;
        Id first_child = kNone;
        Id last_child = kNone;
        Id previous = kNone;
        Id next = kNone;
        std::uint32_t children = 0;
        std::uint32_t parent_tokens;
        std::uint32_t depth_tokens;
        std::uint64_t last_access;
        double efficiency = 0;
    };

    // Where a sequence leaves the tree.
    struct Match {
        Id node;             // the deepest that it matches whole
        Id partial = kNone;  // its child that it matches in part
        std::size_t covered_nodes = 0;
        std::uint32_t covered_tokens = 0;
    };

    Match match(std::size_t nodes) const;
    Match look_up(std::size_t nodes);
    void insert(Outcome& outcome);
    void evict(std::int64_t bytes, Outcome& outcome);
    std::int64_t evict_oldest_leaf(Outcome& outcome);
    std::int64_t evict_by_utility(Outcome& outcome);
    void count_tokens(const Request& request, const Match& match, std::size_t prompt_nodes,
                      Outcome& outcome) const;

    Id new_node(Id parent, NodeId end);
    Id split(const Match& match);
    void remove_leaf(Id leaf);
    void merge_into_child(Id node);
    void append_child(Id parent, Id child);
    // `replacement` takes the place of `child` among its siblings.
    void replace_child(Id child, Id replacement);
    void own(Id node);
    void update_efficiency(Node& node) const;
    // The next node in pre-order, kNone after the last.
    [[nodiscard]] Id following(Id node) const;
    [[nodiscard]] std::int64_t edge_bytes(const Node& node) const;

    const Trace& trace_;
    ArtifactPolicy policy_;
    double alpha_;
    LayerwiseCost cost_;
    std::int64_t capacity_bytes_;
    std::vector<Node> nodes_;
    std::vector<Id> free_;
    std::vector<Id> owner_;  // the node whose edge covers a node of the trace
    std::vector<std::uint8_t> had_state_;
    std::vector<NodeId> path_;
    std::vector<Id> candidates_;
    std::vector<double> recency_;
    std::uint64_t clock_ = 0;
    std::int64_t kv_tokens_ = 0;
    std::int64_t states_ = 0;
};

}  // namespace marconi
