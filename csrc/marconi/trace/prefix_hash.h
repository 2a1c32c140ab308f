// Keyed hashes of prefixes: what a recorded trace shows in place of tokens.
#pragma once

#include <array>
#include <cstdint>

#include "marconi/trace/radix_tree.h"

namespace marconi {

// Position i of a sequence becomes the low half of H_key(H_key(... H_key(seed, t_0) ..., t_i)) with H =
// SipHash-2-4 (Aumasson and Bernstein, 2012). Two sequences have equal hashes exactly as far as they share a
// prefix, but for one chance in 2^32 where they part; without the key a hash tells nothing of its token.
class PrefixHasher {
  public:
    using Key = std::array<std::uint64_t, 2>;

    explicit PrefixHasher(Key key) : key_(key) {}

    // Writes one hash for each token; returns the last link, the seed of what follows (`seed` if there is no
    // token).
    std::uint64_t hash(UnitSpan<std::uint32_t> tokens, std::uint64_t seed, std::uint32_t* hashes) const;

  private:
    Key key_;
};

}  // namespace marconi
