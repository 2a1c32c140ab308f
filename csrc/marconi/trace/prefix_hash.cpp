#include "marconi/trace/prefix_hash.h"

namespace marconi {
namespace {

std::uint64_t rotate_left(std::uint64_t value, unsigned bits) {
    return value << bits | value >> (64 - bits);
}

struct SipState {
    std::uint64_t v0, v1, v2, v3;

    explicit SipState(const PrefixHasher::Key& key)
        : v0(key[0] ^ 0x736f6d6570736575ULL),
          v1(key[1] ^ 0x646f72616e646f6dULL),
          v2(key[0] ^ 0x6c7967656e657261ULL),
          v3(key[1] ^ 0x7465646279746573ULL) {}

    void round() {
        v0 += v1;
        v1 = rotate_left(v1, 13) ^ v0;
        v0 = rotate_left(v0, 32);
        v2 += v3;
        v3 = rotate_left(v3, 16) ^ v2;
        v0 += v3;
        v3 = rotate_left(v3, 21) ^ v0;
        v2 += v1;
        v1 = rotate_left(v1, 17) ^ v2;
        v2 = rotate_left(v2, 32);
    }

    void absorb(std::uint64_t word) {
        v3 ^= word;
        round();
        round();
        v0 ^= word;
    }

    std::uint64_t finish() {
        v2 ^= 0xff;
        for (int i = 0; i < 4; ++i) round();
        return v0 ^ v1 ^ v2 ^ v3;
    }
};

// SipHash-2-4 of the twelve bytes of a link and a token, both little-endian.
std::uint64_t next_link(const PrefixHasher::Key& key, std::uint64_t link, std::uint32_t token) {
    constexpr std::uint64_t kLength = std::uint64_t{12} << 56;
    SipState state(key);
    state.absorb(link);
    state.absorb(kLength | token);
    return state.finish();
}

}  // namespace

std::uint64_t PrefixHasher::hash(UnitSpan<std::uint32_t> tokens, std::uint64_t seed,
                                 std::uint32_t* hashes) const {
    std::uint64_t link = seed;
    for (std::size_t i = 0; i < tokens.size; ++i) {
        link = next_link(key_, link, tokens.data[i]);
        hashes[i] = static_cast<std::uint32_t>(link);
    }
    return link;
}

}  // namespace marconi
