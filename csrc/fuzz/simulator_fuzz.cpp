// Fuzz target: bytes as calls that build token and block traces, valid or not, and as replays of them.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

#include "marconi/replay/search.h"
#include "marconi/trace/trace_builder.h"

namespace {

class Input {
  public:
    Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

    [[nodiscard]] bool empty() const { return size_ == 0; }

    std::uint8_t byte() {
        if (size_ == 0) return 0;
        --size_;
        return *data_++;
    }

    // Small ones mostly.
    std::uint32_t integer() {
        const std::uint8_t kind = byte();
        if (kind < 250) return kind % 80;
        return std::uint32_t{byte()} << 24 | std::uint32_t{byte()} << 16 | kind;
    }

    template <typename Unit>
    std::vector<Unit> units() {
        std::vector<Unit> units(byte() % 48);
        for (Unit& unit : units) unit = byte() % 4;
        return units;
    }

  private:
    const std::uint8_t* data_;
    std::size_t size_;
};

template <typename Unit>
marconi::UnitSpan<Unit> span_of(const std::vector<Unit>& units) {
    return {units.data(), units.size()};
}

marconi::Trace build_token_trace(Input& input, std::size_t requests) {
    marconi::TokenTraceBuilder builder;
    for (std::size_t i = 0; i < requests && !input.empty(); ++i) {
        const auto added = input.units<std::uint32_t>();
        const auto reply = input.units<std::uint32_t>();
        try {
            if (input.byte() % 4 == 0) {
                builder.add(span_of(added), span_of(reply), 0);
            } else {
                const std::size_t base = input.integer();
                builder.add_continuation(base, input.integer(), span_of(added), span_of(reply), 0);
            }
        } catch (const std::invalid_argument&) {
            continue;
        } catch (const std::length_error&) {
            continue;
        }
    }
    return builder.build();
}

marconi::Trace build_block_trace(Input& input, std::size_t requests) {
    marconi::BlockTraceBuilder builder(1 + input.byte() % 70);
    for (std::size_t i = 0; i < requests && !input.empty(); ++i) {
        const auto blocks = input.units<std::uint64_t>();
        const std::uint32_t prompt_tokens = input.integer() * 40;
        const std::uint32_t reply_tokens = input.integer();
        try {
            builder.add(span_of(blocks), prompt_tokens, reply_tokens, input.byte() % 3 - 1, 0);
        } catch (const std::invalid_argument&) {
            continue;
        } catch (const std::length_error&) {
            continue;
        }
    }
    return builder.build();
}

marconi::ReplayOptions random_options(Input& input) {
    constexpr const char* kNames[] = {"none",    "vllm",   "sglang", "sglang-native",
                                      "marconi", "belady", "other"};
    marconi::ReplayOptions options;
    options.policy.name = kNames[input.byte() % 7];
    options.policy.alpha = input.byte() / 16.0 - 1;
    options.policy.recency =
        input.byte() % 2 == 0 ? marconi::RecencyForm::kLinear : marconi::RecencyForm::kInverseAge;
    options.policy.bytes = input.byte() % 2 == 0 ? marconi::BytesForm::kOwn : marconi::BytesForm::kPath;
    options.policy.min_branch_gain_tokens = input.integer();
    options.preset = input.byte() % 3 == 0 ? marconi::Preset::kPaperArtifact : marconi::Preset::kDefault;
    options.tunes_alpha = input.byte() % 4 == 0;
    options.capacity_bytes = std::int64_t{input.integer()} * 30 - 30;
    options.cost.total = {1.0 * input.byte(), 0.5 * input.byte(), input.byte() % 4, input.byte() % 64};
    options.policy.admits_prompt_end = input.byte() % 2 == 0;
    options.budget = input.byte() % 2 == 0 ? marconi::Budget::kSglang : marconi::Budget::kBytes;
    options.pools = {std::int64_t{input.integer()} - 5, std::int64_t{input.byte()} % 40 - 1,
                     input.byte() % 70U, 16U * input.byte()};
    options.service = {input.byte() / 100.0 - 0.01, input.byte() / 100.0, input.byte() % 5U};
    return options;
}

void require(bool holds, const char* rule) {
    if (holds) return;
    std::fprintf(stderr, "FAILED: %s\n", rule);
    std::abort();
}

void replay(const std::shared_ptr<const marconi::Trace>& trace, const marconi::ReplayOptions& options) {
    marconi::Search search(trace, {options}, 1);
    const std::vector<marconi::Outcome>& outcomes = search.results()[0].outcomes;
    require(outcomes.size() == trace->requests.size(), "every request has an outcome");
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
        const marconi::Outcome& outcome = outcomes[i];
        const std::uint64_t tokens = std::uint64_t{outcome.hit_tokens} + outcome.never_seen_tokens +
                                     outcome.not_admitted_tokens + outcome.evicted_tokens +
                                     outcome.in_flight_tokens;
        require(tokens == trace->requests[i].prompt_tokens, "every prompt token hits or has a reason");
        const bool has_pools = options.budget == marconi::Budget::kSglang;
        const bool fits =
            has_pools ? outcome.kv_bytes <= options.pools.kv_tokens * options.cost.total.kv_bytes_per_token &&
                            outcome.state_bytes <= options.pools.states * options.cost.total.state_bytes
                      : outcome.kv_bytes + outcome.state_bytes <= options.capacity_bytes;
        require(fits || options.preset == marconi::Preset::kPaperArtifact, "capacity is hard");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input input(data, size);
    const bool has_blocks = input.byte() % 3 == 0;
    const auto trace = std::make_shared<const marconi::Trace>(has_blocks ? build_block_trace(input, 40)
                                                                         : build_token_trace(input, 40));
    // A grid cuts long private ends into many nodes, which is slow and nothing else.
    for (const marconi::Request& request : trace->requests) {
        if (request.prompt_tokens + request.reply_tokens > 10000) return 0;
    }
    for (int run = 0; run < 4; ++run) {
        try {
            replay(trace, random_options(input));
        } catch (const std::invalid_argument&) {
            continue;
        }
    }
    return 0;
}
