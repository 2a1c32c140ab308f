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

    Factor operator-() const { return {magnitude, exponent, !is_negative}; }
};

// Of the three factors at most two may come from doubles.
struct Product {
    Factor a;
    Factor b;
    Factor c = {1};
};

// -1, 0 or 1: the sign of the sum in real arithmetic.
int sign_of_sum(const std::array<Product, 4>& products);

}  // namespace marconi
