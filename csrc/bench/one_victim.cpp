// Evicts 4000 victims for an instruction profiler, which counts inside one_victim only.
// Arguments: node count, alpha.
#include <cstdlib>
#include <random>

#include "marconi/utility_index.h"

namespace {

constexpr int kVictims = 4000;

}  // namespace

extern "C" __attribute__((noinline)) void one_victim(marconi::UtilityIndex& index) {
    index.pop_victim();
}

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    const std::uint64_t nodes = std::strtoull(argv[1], nullptr, 10);
    marconi::UtilityIndex index(std::strtod(argv[2], nullptr));
    std::mt19937_64 random(nodes);
    std::uniform_real_distribution<double> efficiency(1e3, 1e6);
    std::uint64_t step = 0;
    const auto insert_next = [&] {
        index.insert(static_cast<std::int64_t>(step), step, efficiency(random));
        ++step;
    };
    while (step < nodes) insert_next();
    for (int i = 0; i < kVictims; ++i) {
        one_victim(index);
        insert_next();
    }
    return 0;
}
