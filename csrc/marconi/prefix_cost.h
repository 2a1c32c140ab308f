// What a cached prefix saves and holds.
#pragma once

#include <cstdint>

namespace marconi {

// FLOP efficiency counts as bytes ...
enum class BytesForm : std::uint8_t {
    kOwn,   // what evicting the node gives back
    kPath,  // its state and the KV of its whole prefix
};

struct PrefixCost {
    double linear_flops_per_token = 0;             // a
    double quadratic_flops_per_token_squared = 0;  // b
    std::int64_t kv_bytes_per_token = 0;
    std::int64_t state_bytes = 0;

    // a L + b L^2
    [[nodiscard]] double prefill_flops(double tokens) const {
        return linear_flops_per_token * tokens + quadratic_flops_per_token_squared * tokens * tokens;
    }
};

}  // namespace marconi
