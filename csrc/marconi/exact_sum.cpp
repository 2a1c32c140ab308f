#include "marconi/exact_sum.h"

#include <algorithm>
#include <cstring>

namespace marconi {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr int kMantissaBits = 52;
constexpr int kExponentMask = 0x7ff;
constexpr int kLeastExponent = -1074;
constexpr int kProductLimbs = 4;  // three factors of 64 bits, shifted by less than a limb

std::array<std::uint64_t, kProductLimbs> shifted_product(std::uint64_t a, std::uint64_t b, std::uint64_t c,
                                                         int shift) {
    const Wide ab = Wide{a} * b;
    const Wide low = Wide{static_cast<std::uint64_t>(ab)} * c;
    const Wide high = Wide{static_cast<std::uint64_t>(ab >> 64)} * c + static_cast<std::uint64_t>(low >> 64);
    const std::uint64_t x0 = static_cast<std::uint64_t>(low);
    const std::uint64_t x1 = static_cast<std::uint64_t>(high);
    const std::uint64_t x2 = static_cast<std::uint64_t>(high >> 64);
    if (shift == 0) return {x0, x1, x2, 0};
    const int back = 64 - shift;
    return {x0 << shift, (x1 << shift) | (x0 >> back), (x2 << shift) | (x1 >> back), x2 >> back};
}

}  // namespace

Factor Factor::of(double value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    const int field = static_cast<int>(bits >> kMantissaBits) & kExponentMask;
    const std::uint64_t fraction = bits & ((std::uint64_t{1} << kMantissaBits) - 1);
    const bool is_negative = (bits >> 63) != 0;
    if (field == 0) return {fraction, kLeastExponent, is_negative};
    return {fraction | (std::uint64_t{1} << kMantissaBits), field - 1 + kLeastExponent, is_negative};
}

Factor Factor::difference(std::uint64_t minuend, std::uint64_t subtrahend) {
    if (minuend >= subtrahend) return {minuend - subtrahend};
    return {subtrahend - minuend, 0, true};
}

void ExactSum::add(Factor a, Factor b, Factor c) {
    const int shift = a.exponent + b.exponent + c.exponent - kLowestExponent;
    const auto product = shifted_product(a.magnitude, b.magnitude, c.magnitude, shift % kLimbBits);
    const bool is_negative = (a.is_negative != b.is_negative) != c.is_negative;
    Limbs& limbs = is_negative ? negative_ : positive_;
    int limb = shift / kLimbBits;
    std::uint64_t carry = 0;
    for (int i = 0; i < kProductLimbs || carry != 0; ++i, ++limb) {
        const std::uint64_t part = i < kProductLimbs ? product[i] : 0;
        const Wide sum = Wide{limbs[limb]} + part + carry;
        limbs[limb] = static_cast<std::uint64_t>(sum);
        carry = static_cast<std::uint64_t>(sum >> 64);
    }
    used_limbs_ = std::max(used_limbs_, limb);
}

void ExactSum::subtract(Factor a, Factor b, Factor c) {
    a.is_negative = !a.is_negative;
    add(a, b, c);
}

int ExactSum::sign() const {
    for (int limb = used_limbs_ - 1; limb >= 0; --limb) {
        if (positive_[limb] != negative_[limb]) return positive_[limb] > negative_[limb] ? 1 : -1;
    }
    return 0;
}

}  // namespace marconi
