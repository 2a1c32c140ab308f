// Runs a fuzz target on seeded random bytes, for compilers without libFuzzer.
// Arguments: number of inputs, seed of the first; each input has its own seed, which runs it again alone.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
    const std::uint64_t inputs = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
    const std::uint64_t first_seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::random_device{}();
    for (std::uint64_t i = 0; i < inputs; ++i) {
        const std::uint64_t seed = first_seed + i;
        std::printf("\rinput %llu, seed %llu", static_cast<unsigned long long>(i + 1),
                    static_cast<unsigned long long>(seed));
        std::fflush(stdout);
        std::mt19937_64 random(seed);
        std::vector<std::uint8_t> bytes(random() % 4096);
        for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
        LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
    std::printf("\n");
    return 0;
}
