// The exact sign of a sum of products, for comparisons that rounding must not decide.
#pragma once

#include <array>
#include <cstdint>

namespace marconi {

// A factor of a product: +-magnitude * 2^exponent, exact for every uint64 and every finite double.
struct Factor {
    std::uint64_t magnitude;
    int exponent = 0;
    bool is_negative = false;

    static Factor of(std::uint64_t value) { return {value}; }
    static Factor of(double value);
    static Factor difference(std::uint64_t minuend, std::uint64_t subtrahend);
};

// Fixed-point accumulator wide enough for every product of at most three factors of which at most two
// are doubles: from 2^-2148 (two least subnormals) to beyond 2^2112 (two largest doubles and a uint64).
class ExactSum {
  public:
    void add(Factor a, Factor b, Factor c = Factor::of(std::uint64_t{1}));
    void subtract(Factor a, Factor b, Factor c = Factor::of(std::uint64_t{1}));

    // -1, 0 or 1.
    [[nodiscard]] int sign() const;

  private:
    static constexpr int kLimbBits = 64;
    static constexpr int kLowestExponent = -2 * 1074;
    static constexpr int kLimbs = 70;
    using Limbs = std::array<std::uint64_t, kLimbs>;

    Limbs positive_{};
    Limbs negative_{};
    int used_limbs_ = 0;
};

}  // namespace marconi
