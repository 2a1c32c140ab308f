#include "marconi/exact_sum.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace marconi {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr int kMantissaBits = 52;
constexpr int kExponentMask = 0x7ff;
constexpr int kLeastExponent = -1074;
constexpr int kLargestExponent = 971;

constexpr int kLimbBits = 64;
constexpr int kProductLimbs = 4;  // three factors of 64 bits, shifted by less than a limb
// Products lie at limbs apart by their exponents; one limb more takes the carries of their sum.
constexpr int kMaxLimbs = 2 * (kLargestExponent - kLeastExponent) / kLimbBits + 1 + kProductLimbs + 1;

int exponent_of(const Product& product) {
    return product.a.exponent + product.b.exponent + product.c.exponent;
}

bool is_negative(const Product& product) {
    return (product.a.is_negative != product.b.is_negative) != product.c.is_negative;
}

std::array<std::uint64_t, kProductLimbs> shifted_magnitude(const Product& product, int shift) {
    const Wide ab = Wide{product.a.magnitude} * product.b.magnitude;
    const std::uint64_t c = product.c.magnitude;
    const Wide low = Wide{static_cast<std::uint64_t>(ab)} * c;
    const Wide high =
        Wide{static_cast<std::uint64_t>(ab >> kLimbBits)} * c + static_cast<std::uint64_t>(low >> kLimbBits);
    const auto x0 = static_cast<std::uint64_t>(low);
    const auto x1 = static_cast<std::uint64_t>(high);
    const auto x2 = static_cast<std::uint64_t>(high >> kLimbBits);
    if (shift == 0) return {x0, x1, x2, 0};
    const int back = kLimbBits - shift;
    return {x0 << shift, (x1 << shift) | (x0 >> back), (x2 << shift) | (x1 >> back), x2 >> back};
}

// A sum of magnitudes in fixed point, least limb first.
struct Magnitude {
    std::uint64_t limbs[kMaxLimbs];  // only as many as in use are set

    void add(const Product& product, int shift) {
        const auto parts = shifted_magnitude(product, shift % kLimbBits);
        int limb = shift / kLimbBits;
        std::uint64_t carry = 0;
        for (int i = 0; i < kProductLimbs || carry != 0; ++i, ++limb) {
            const std::uint64_t part = i < kProductLimbs ? parts[static_cast<std::size_t>(i)] : 0;
            const Wide sum = Wide{limbs[limb]} + part + carry;
            limbs[limb] = static_cast<std::uint64_t>(sum);
            carry = static_cast<std::uint64_t>(sum >> kLimbBits);
        }
    }
};

}  // namespace

Factor Factor::of(double value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    const int field = static_cast<int>(bits >> kMantissaBits) & kExponentMask;
    const std::uint64_t fraction = bits & ((std::uint64_t{1} << kMantissaBits) - 1);
    const bool is_negative = (bits >> 63) != 0;
    if (value == 0) return {0};  // its least exponent would only widen the sum
    if (field == 0) return {fraction, kLeastExponent, is_negative};
    return {fraction | (std::uint64_t{1} << kMantissaBits), field - 1 + kLeastExponent, is_negative};
}

Factor Factor::difference(std::uint64_t minuend, std::uint64_t subtrahend) {
    if (minuend >= subtrahend) return {minuend - subtrahend};
    return {subtrahend - minuend, 0, true};
}

int sign_of_sum(const std::array<Product, 4>& products) {
    int least = exponent_of(products[0]);
    int largest = least;
    for (const Product& product : products) {
        least = std::min(least, exponent_of(product));
        largest = std::max(largest, exponent_of(product));
    }
    const int used = (largest - least) / kLimbBits + kProductLimbs + 1;
    assert(used > 0 && used <= kMaxLimbs);
    Magnitude positive;
    Magnitude negative;
    std::fill_n(positive.limbs, used, 0);
    std::fill_n(negative.limbs, used, 0);
    for (const Product& product : products) {
        (is_negative(product) ? negative : positive).add(product, exponent_of(product) - least);
    }
    for (int limb = used - 1; limb >= 0; --limb) {
        if (positive.limbs[limb] != negative.limbs[limb]) {
            return positive.limbs[limb] > negative.limbs[limb] ? 1 : -1;
        }
    }
    return 0;
}

}  // namespace marconi
