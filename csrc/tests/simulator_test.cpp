// Replays of random traces under every policy: capacity, accounting, the trees' growth and the threads.
// Arguments: steps per scenario, seed. Prints what failed with its seed and exits with 1.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "marconi/replay/search.h"
#include "marconi/trace/trace_builder.h"

namespace {

using marconi::Outcome;
using marconi::Preset;
using marconi::ReplayOptions;
using marconi::ReplayResult;
using marconi::TokenTraceBuilder;
using Random = std::mt19937_64;
using Tokens = std::vector<std::uint32_t>;

void require(bool holds, const std::string& rule) {
    if (!holds) throw std::runtime_error(rule);
}

marconi::UnitSpan<std::uint32_t> span_of(const Tokens& tokens) {
    return {tokens.data(), tokens.size()};
}

Tokens random_tokens(Random& random, std::size_t most) {
    Tokens tokens(random() % (most + 1));
    for (std::uint32_t& token : tokens) token = random() % 3;
    return tokens;
}

// Sequences that continue, repeat, cut short or leave earlier ones.
std::vector<std::pair<Tokens, Tokens>> random_requests(Random& random, std::size_t count) {
    std::vector<std::pair<Tokens, Tokens>> requests;
    while (requests.size() < count) {
        Tokens prompt;
        if (!requests.empty() && random() % 5 > 0) {
            const auto& [base, reply] = requests[random() % requests.size()];
            prompt = base;
            prompt.insert(prompt.end(), reply.begin(), reply.end());
            if (random() % 3 == 0) prompt.resize(random() % (prompt.size() + 1));
        }
        const Tokens added = random_tokens(random, 40);
        prompt.insert(prompt.end(), added.begin(), added.end());
        if (prompt.size() > 400) prompt.resize(400);
        requests.emplace_back(prompt, random_tokens(random, 20));
    }
    return requests;
}

ReplayOptions make_options(const char* policy, Preset preset, double alpha, std::int64_t capacity_bytes) {
    ReplayOptions options;
    options.preset = preset;
    options.policy.name = policy;
    options.policy.alpha = alpha;
    options.capacity_bytes = capacity_bytes;
    options.cost.total = {3, 0.5, 1, 30};
    return options;
}

ReplayOptions with_pools(ReplayOptions options, Random& random) {
    options.budget = marconi::Budget::kSglang;
    options.pools = {static_cast<std::int64_t>(random() % 2000), static_cast<std::int64_t>(random() % 12),
                     static_cast<std::uint32_t>(1 + random() % 20),
                     static_cast<std::uint32_t>(1 + random() % 200)};
    options.service = {0.01 * static_cast<double>(random() % 2), 0.02 * static_cast<double>(random() % 2),
                       static_cast<std::uint32_t>(1 + random() % 4)};
    options.policy.admits_prompt_end = random() % 2 == 0;
    return options;
}

std::int64_t capacity_of(const ReplayOptions& options) {
    if (options.budget == marconi::Budget::kBytes) return options.capacity_bytes;
    const marconi::PrefixCost& cost = options.cost.total;
    return options.pools.kv_tokens * cost.kv_bytes_per_token + options.pools.states * cost.state_bytes;
}

std::vector<ReplayOptions> all_options(Random& random) {
    const auto capacity = static_cast<std::int64_t>(random() % 3000);
    std::vector<ReplayOptions> options;
    for (const char* policy : {"none", "vllm", "sglang", "sglang-native", "marconi", "belady"})
        options.push_back(make_options(policy, Preset::kDefault, 0.5, capacity));
    for (const char* policy : {"vllm", "sglang", "marconi"})
        options.push_back(make_options(policy, Preset::kPaperArtifact, 0.5, capacity));
    for (const char* policy : {"none", "sglang", "sglang-native", "marconi", "belady"})
        options.push_back(with_pools(make_options(policy, Preset::kDefault, 0.5, 0), random));
    options.push_back(with_pools(make_options("marconi", Preset::kDefault, 0, 0), random));
    options.back().tunes_alpha = true;
    options.push_back(make_options("marconi", Preset::kDefault, 0, capacity));
    options.back().tunes_alpha = true;
    options.push_back(make_options("marconi", Preset::kPaperArtifact, 0, capacity));
    options.back().tunes_alpha = true;
    return options;
}

void check_result(const marconi::Trace& trace, const ReplayOptions& options, const ReplayResult& result) {
    const bool is_hard = options.preset == Preset::kDefault;
    require(result.outcomes.size() == trace.requests.size(), "every request has an outcome");
    for (std::size_t i = 0; i < result.outcomes.size(); ++i) {
        const Outcome& outcome = result.outcomes[i];
        const std::uint32_t tokens = outcome.hit_tokens + outcome.never_seen_tokens +
                                     outcome.not_admitted_tokens + outcome.evicted_tokens +
                                     outcome.in_flight_tokens;
        require(tokens == trace.requests[i].prompt_tokens, "every prompt token hits or has a reason");
        require(outcome.kv_bytes >= 0 && outcome.state_bytes >= 0, "bytes are not negative");
        if (is_hard) {
            require(outcome.kv_bytes + outcome.state_bytes <= capacity_of(options), "capacity is hard");
        }
    }
}

void replay_random_traces(Random& random, std::uint64_t steps) {
    const auto requests = random_requests(random, steps / 10 + 1);
    TokenTraceBuilder builder;
    for (const auto& [prompt, reply] : requests) {
        builder.add(span_of(prompt), span_of(reply), 0);
        require(builder.match_tokens(span_of(prompt)) == prompt.size(), "a prompt that was added matches");
    }
    const auto trace = std::make_shared<const marconi::Trace>(builder.build());
    const std::vector<ReplayOptions> options = all_options(random);
    marconi::Search one(trace, options, 1);
    marconi::Search many(trace, options, 4);
    for (std::size_t run = 0; run < options.size(); ++run) {
        const ReplayResult& result = one.results()[run];
        check_result(*trace, options[run], result);
        require(result.hit_tokens == many.results()[run].hit_tokens, "threads do not matter");
        require(result.alpha == many.results()[run].alpha, "threads do not matter to alpha");
    }
}

void cancel_midway(Random& random, std::uint64_t steps) {
    TokenTraceBuilder builder;
    for (const auto& [prompt, reply] : random_requests(random, steps / 10 + 1))
        builder.add(span_of(prompt), span_of(reply), 0);
    const auto trace = std::make_shared<const marconi::Trace>(builder.build());
    marconi::Search search(
        trace, std::vector<ReplayOptions>(50, make_options("marconi", Preset::kDefault, 1, 500)), 2);
    search.cancel();
    require(search.results().size() == 50, "a cancelled search has a result for every run");
}

void grow_deep_and_wide(Random& /*random*/, std::uint64_t steps) {
    TokenTraceBuilder chain;
    const Tokens two{1, 2};
    chain.add(span_of(two), span_of(two), 0);
    for (std::uint32_t turn = 1; turn < 1500; ++turn)
        chain.add_continuation(turn - 1, 4 * turn, span_of(two), span_of(two), 0);
    TokenTraceBuilder wide;
    for (std::uint32_t i = 0; i < 20 * steps; ++i) {
        const Tokens prompt{i % 50, i};
        wide.add(span_of(prompt), span_of(two), 0);
    }
    for (const TokenTraceBuilder* builder : {&chain, &wide}) {
        const auto trace = std::make_shared<const marconi::Trace>(builder->build());
        const std::vector<ReplayOptions> options{make_options("marconi", Preset::kDefault, 1, 20000),
                                                 make_options("sglang", Preset::kDefault, 0, 1000000)};
        marconi::Search search(trace, options, 2);
        for (std::size_t run = 0; run < options.size(); ++run)
            check_result(*trace, options[run], search.results()[run]);
    }
}

struct Scenario {
    const char* name;
    void (*run)(Random& random, std::uint64_t steps);
};

constexpr Scenario kScenarios[] = {
    {"random traces", replay_random_traces},
    {"cancelled searches", cancel_midway},
    {"deep and wide trees", grow_deep_and_wide},
};

}  // namespace

int main(int argc, char** argv) {
    const std::uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 5000;
    const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::random_device{}();
    for (const Scenario& scenario : kScenarios) {
        Random random(seed);
        try {
            scenario.run(random, steps);
            std::printf("ok: %s, %llu steps\n", scenario.name, static_cast<unsigned long long>(steps));
        } catch (const std::exception& error) {
            std::printf("FAILED: %s, seed %llu: %s\n", scenario.name, static_cast<unsigned long long>(seed),
                        error.what());
            return 1;
        }
    }
    return 0;
}
