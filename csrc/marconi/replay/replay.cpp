#include "marconi/replay/replay.h"

#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>

#include "marconi/policies/marconi.h"
#include "marconi/replay/alpha_tuning.h"
#include "marconi/replay/artifact_blocks.h"
#include "marconi/replay/byte_budget.h"
#include "marconi/replay/clairvoyant.h"
#include "marconi/replay/pool_replay.h"

namespace marconi {
namespace {

// One way to serve requests, whichever preset and policy.
class Server {
  public:
    Server() = default;
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    virtual ~Server() = default;
    virtual Outcome serve(const Request& request) = 0;
    virtual void set_alpha(double alpha) = 0;
};

class Uncached final : public Server {
  public:
    Outcome serve(const Request& request) override {
        Outcome outcome;
        outcome.not_admitted_tokens = request.seen_tokens;
        outcome.never_seen_tokens = request.prompt_tokens - request.seen_tokens;
        return outcome;
    }
    void set_alpha(double /*alpha*/) override {}
};

class ByteBudget final : public Server {
  public:
    ByteBudget(const Trace& trace, const ReplayOptions& options)
        : cache_(trace, options.policy, options.cost.total, options.capacity_bytes) {}
    Outcome serve(const Request& request) override { return cache_.serve(request); }
    void set_alpha(double alpha) override {
        if (auto* policy = dynamic_cast<MarconiPolicy*>(&cache_.policy())) policy->set_alpha(alpha);
    }

  private:
    ByteBudgetCache cache_;
};

class Artifact final : public Server {
  public:
    Artifact(const Trace& trace, const ReplayOptions& options)
        : cache_(trace, options.policy.name == "marconi" ? ArtifactPolicy::kMarconi : ArtifactPolicy::kSglang,
                 options.policy.alpha, options.cost, options.capacity_bytes) {}
    Outcome serve(const Request& request) override { return cache_.serve(request); }
    void set_alpha(double alpha) override { cache_.set_alpha(alpha); }

  private:
    PaperArtifactCache cache_;
};

class ArtifactBlocks final : public Server {
  public:
    ArtifactBlocks(const Trace& trace, const ReplayOptions& options)
        : cache_(trace, options.cost.total, options.capacity_bytes) {}
    Outcome serve(const Request& request) override { return cache_.serve(request); }
    void set_alpha(double /*alpha*/) override {}

  private:
    ArtifactBlockCache cache_;
};

std::unique_ptr<Server> make_server(const Trace& trace, const ReplayOptions& options) {
    if (options.policy.name == "none") return std::make_unique<Uncached>();
    if (options.preset == Preset::kDefault) return std::make_unique<ByteBudget>(trace, options);
    if (options.policy.name == "vllm") return std::make_unique<ArtifactBlocks>(trace, options);
    return std::make_unique<Artifact>(trace, options);
}

bool is_one_of(const std::string& name, std::initializer_list<const char*> names) {
    for (const char* known : names) {
        if (name == known) return true;
    }
    return false;
}

void require(bool holds, const std::string& rule) {
    if (!holds) throw std::invalid_argument(rule);
}

// Of both pools; a double, as the product of any two sizes fits one.
double pool_bytes(const ReplayOptions& options) {
    const PrefixCost& cost = options.cost.total;
    return static_cast<double>(options.pools.kv_tokens) * static_cast<double>(cost.kv_bytes_per_token) +
           static_cast<double>(options.pools.states) * static_cast<double>(cost.state_bytes);
}

void validate_pools(const ReplayOptions& options) {
    const PoolSizes& pools = options.pools;
    require(options.preset == Preset::kDefault,
            "the budget sglang has no preset paper-artifact; take the budget bytes");
    require(options.policy.name != "vllm",
            "policy vllm needs the budget bytes: SGLang's pools have no states every 32 tokens");
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    require(pools.kv_tokens >= 0 && pools.kv_tokens <= kMost,
            "kv_tokens must be in [0, 2^40], got " + std::to_string(pools.kv_tokens));
    require(pools.states >= 0 && pools.states <= kMost,
            "states must be in [0, 2^40], got " + std::to_string(pools.states));
    require(pool_bytes(options) <= static_cast<double>(std::int64_t{1} << 60),
            "the two pools must hold at most 2^60 bytes; lower kv_tokens or states");
    require(pools.page_tokens >= 1 && pools.page_tokens <= 4096,
            "page_tokens must be in [1, 4096], got " + std::to_string(pools.page_tokens));
    require(pools.chunk_tokens >= 1, "chunk_tokens must be >= 1, got 0");
    require(pools.grid_tokens >= 1 && (pools.grid_tokens == 1 || pools.grid_tokens % pools.page_tokens == 0),
            "grid_tokens must be 1 or a multiple of page_tokens, got " + std::to_string(pools.grid_tokens));
    require(pools.slots_per_request >= 1, "slots_per_request must be >= 1, got 0");
    validate(options.tuning);
    require(options.objective.min_gain >= 0 && options.objective.min_gain <= 1,
            "min_gain must be in [0, 1], got " + std::to_string(options.objective.min_gain));
    const ServiceModel& service = options.service;
    for (const double seconds : {service.prefill_s_per_token, service.decode_s_per_token})
        require(seconds >= 0 && seconds <= 1e6,
                "seconds per token must be in [0, 1e6], got " + std::to_string(seconds));
    require(service.max_running_requests >= 1, "max_running_requests must be >= 1, got 0");
}

void add_up(ReplayResult& result) {
    for (const Outcome& outcome : result.outcomes) {
        result.hit_tokens += outcome.hit_tokens;
        result.flops_saved += outcome.flops_saved;
    }
}

}  // namespace

void validate(const ReplayOptions& options) {
    const std::string& name = options.policy.name;
    if (options.preset == Preset::kPaperArtifact) {
        require(is_one_of(name, {"none", "vllm", "sglang", "marconi"}),
                "policy must be none, vllm, sglang or marconi with the preset paper-artifact, got \"" + name +
                    "\"");
    } else {
        require(is_one_of(name, {"none", "vllm", "sglang", "sglang-native", "marconi", "belady"}),
                "policy must be none, vllm, sglang, sglang-native, marconi or belady, got \"" + name + "\"");
    }
    require(options.policy.alpha >= 0 && std::isfinite(options.policy.alpha),
            "alpha must be a finite number >= 0, got " + std::to_string(options.policy.alpha));
    // Totals of bytes and of bytes times requests stay far inside their types.
    constexpr std::int64_t kMost = std::int64_t{1} << 60;
    require(options.capacity_bytes >= 0 && options.capacity_bytes <= kMost,
            "capacity_bytes must be in [0, 2^60], got " + std::to_string(options.capacity_bytes));
    const PrefixCost& cost = options.cost.total;
    require(cost.kv_bytes_per_token >= 0 && cost.kv_bytes_per_token <= (std::int64_t{1} << 28),
            "kv_bytes_per_token must be in [0, 2^28], got " + std::to_string(cost.kv_bytes_per_token));
    require(cost.state_bytes >= 0 && cost.state_bytes <= (std::int64_t{1} << 38),
            "state_bytes must be in [0, 2^38], got " + std::to_string(cost.state_bytes));
    for (const double flops : {cost.linear_flops_per_token, cost.quadratic_flops_per_token_squared})
        require(flops >= 0 && flops <= 1e30,
                "FLOPs per token must be in [0, 1e30], got " + std::to_string(flops));
    if (options.budget == Budget::kSglang) validate_pools(options);
}

std::uint32_t required_grid_tokens(const ReplayOptions& options) {
    if (options.budget == Budget::kSglang) return 1;
    return policy_grid_tokens(options.policy.name);
}

ReplayResult replay(const Trace& trace, const ReplayOptions& options, const Progress& progress) {
    if (options.policy.name == "belady") {
        // What two pools hold, one pool of their bytes could hold too.
        const std::int64_t bytes = options.budget == Budget::kBytes
                                       ? options.capacity_bytes
                                       : static_cast<std::int64_t>(pool_bytes(options));
        return clairvoyant_bound(trace, options.cost.total, bytes, progress);
    }
    return replay_requests(trace, 0, trace.requests.size(), options, progress);
}

ReplayResult replay_requests(const Trace& trace, std::size_t first, std::size_t last,
                             const ReplayOptions& options, const Progress& progress) {
    if (options.budget == Budget::kSglang && options.policy.name != "none") {
        ReplayResult pooled = replay_pools(trace, first, last, options, progress);
        add_up(pooled);
        return pooled;
    }
    ReplayResult result;
    const bool tunes = options.tunes_alpha && options.policy.name == "marconi";
    ReplayOptions current = options;
    if (tunes) current.policy.alpha = 0;
    const std::unique_ptr<Server> server = make_server(trace, current);
    AlphaTuning tuning(current);
    bool has_evicted = false;
    result.outcomes.reserve(last - first);
    for (std::size_t i = first; i < last && !progress.is_cancelled(); ++i) {
        const Outcome outcome = server->serve(trace.requests[i]);
        result.outcomes.push_back(outcome);
        progress.request_served();
        has_evicted = has_evicted || outcome.leaf_victims + outcome.inner_victims > 0;
        if (!tunes || !tuning.is_due(i + 1 - first, has_evicted)) continue;
        current.policy.alpha = tuning.best_alpha(trace, progress);
        server->set_alpha(current.policy.alpha);
        result.tuned_after = static_cast<std::int64_t>(i + 1);
    }
    result.alpha = current.policy.alpha;
    add_up(result);
    return result;
}

}  // namespace marconi
