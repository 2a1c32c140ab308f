// Times a look-up of 32,768 tokens over 50 nodes, and the growth of a tree; prints one JSON object.
#include "marconi/trace/radix_tree.h"

#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Tokens = marconi::UnitSpan<std::uint32_t>;

double microseconds(Clock::duration duration) {
    return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

int main() {
    constexpr std::size_t kTokens = 32768;
    constexpr std::size_t kNodes = 50;
    constexpr int kLookups = 2000;
    std::mt19937 random(7);
    std::vector<std::uint32_t> tokens(kTokens);
    for (std::uint32_t& token : tokens) token = random() % 32000;
    marconi::RadixTree<std::uint32_t> tree;
    for (std::size_t node = 1; node <= kNodes; ++node)
        tree.extend(marconi::kRoot, Tokens{tokens.data(), kTokens * node / kNodes});

    std::uint64_t matched = 0;
    const Clock::time_point before_lookups = Clock::now();
    for (int i = 0; i < kLookups; ++i) matched += tree.match(Tokens{tokens.data(), kTokens}).depth;
    const double lookup_us = microseconds(Clock::now() - before_lookups) / kLookups;

    constexpr std::size_t kLeaves = 1000000;
    marconi::RadixTree<std::uint32_t> wide;
    const Clock::time_point before_leaves = Clock::now();
    for (std::size_t i = 0; i < kLeaves; ++i) {
        for (std::size_t j = 0; j < 8; ++j) tokens[j] = random() % 1000;
        wide.extend(marconi::kRoot, Tokens{tokens.data(), 8});
    }
    const double insert_us = microseconds(Clock::now() - before_leaves) / kLeaves;
    std::printf("{\"lookup_us\": %.2f, \"matched_tokens\": %llu, \"insert_us\": %.3f, \"nodes\": %zu}\n", lookup_us,
                static_cast<unsigned long long>(matched / kLookups), insert_us, wide.size());
    return 0;
}
