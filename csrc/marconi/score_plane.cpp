#include "marconi/score_plane.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "marconi/exact_sum.h"

namespace marconi {
namespace {

// No predicate rounds more than 7 times on the way to a term; 16 units of 2^-53 leave room for second order.
constexpr double kRelativeError = 8 * std::numeric_limits<double>::epsilon();
// A product that underflows is wrong by less than this.
constexpr double kAbsoluteError = std::numeric_limits<double>::min();

constexpr int kUndecided = 2;

// Sign of a value computed from terms of the given total magnitude. Overflow (inf, NaN) is undecided.
int filtered_sign(double value, double magnitude) {
    const double error = kRelativeError * magnitude + kAbsoluteError;
    if (value > error) return 1;
    if (-value > error) return -1;
    return kUndecided;
}

double signed_difference(std::uint64_t minuend, std::uint64_t subtrahend) {
    return minuend >= subtrahend ? static_cast<double>(minuend - subtrahend)
                                 : -static_cast<double>(subtrahend - minuend);
}

}  // namespace

Direction::Direction(double alpha, std::uint64_t last_access_range, double min_efficiency,
                     double max_efficiency)
    : alpha_(alpha),
      // With equal time stamps their term is constant whatever its weight.
      last_access_range_(std::max<std::uint64_t>(last_access_range, 1)),
      min_efficiency_(min_efficiency),
      max_efficiency_(max_efficiency),
      last_access_weight_(max_efficiency - min_efficiency),
      efficiency_weight_(alpha * static_cast<double>(last_access_range_)) {}

int Direction::compare(const Vertex& p, const Vertex& q) const {
    const double recency = signed_difference(p.last_access, q.last_access) * last_access_weight_;
    const double efficiency = efficiency_weight_ * (p.efficiency - q.efficiency);
    const int sign = filtered_sign(recency + efficiency, std::abs(recency) + std::abs(efficiency));
    if (sign != kUndecided) return sign;

    const Factor age = Factor::difference(p.last_access, q.last_access);
    const Factor range = Factor::of(last_access_range_);
    const Factor alpha = Factor::of(alpha_);
    return sign_of_sum({{{age, Factor::of(max_efficiency_)},
                         {-age, Factor::of(min_efficiency_)},
                         {alpha, range, Factor::of(p.efficiency)},
                         {-alpha, range, Factor::of(q.efficiency)}}});
}

int side_of(const Edge& line, const Vertex& vertex) {
    const auto& [older, newer] = line;
    const double rise =
        (vertex.efficiency - older.efficiency) * static_cast<double>(newer.last_access - older.last_access);
    const double line_rise =
        (newer.efficiency - older.efficiency) * signed_difference(vertex.last_access, older.last_access);
    const int sign = filtered_sign(rise - line_rise, std::abs(rise) + std::abs(line_rise));
    if (sign != kUndecided) return sign;

    const Factor width = Factor::of(newer.last_access - older.last_access);
    const Factor reach = Factor::difference(vertex.last_access, older.last_access);
    return sign_of_sum({{{width, Factor::of(vertex.efficiency)},
                         {-width, Factor::of(older.efficiency)},
                         {-reach, Factor::of(newer.efficiency)},
                         {reach, Factor::of(older.efficiency)}}});
}

int compare_slopes(const Edge& first, const Edge& second) {
    const std::uint64_t first_width = first.newer.last_access - first.older.last_access;
    const std::uint64_t second_width = second.newer.last_access - second.older.last_access;
    const double first_rise =
        (first.newer.efficiency - first.older.efficiency) * static_cast<double>(second_width);
    const double second_rise =
        (second.newer.efficiency - second.older.efficiency) * static_cast<double>(first_width);
    const int sign = filtered_sign(first_rise - second_rise, std::abs(first_rise) + std::abs(second_rise));
    if (sign != kUndecided) return sign;

    const Factor width1 = Factor::of(first_width);
    const Factor width2 = Factor::of(second_width);
    return sign_of_sum({{{width2, Factor::of(first.newer.efficiency)},
                         {-width2, Factor::of(first.older.efficiency)},
                         {-width1, Factor::of(second.newer.efficiency)},
                         {width1, Factor::of(second.older.efficiency)}}});
}

int compare_heights(const Edge& first, const Edge& second, std::uint64_t at) {
    const std::uint64_t first_width = first.newer.last_access - first.older.last_access;
    const std::uint64_t second_width = second.newer.last_access - second.older.last_access;
    const double fall =
        (first.older.efficiency - first.newer.efficiency) *
        (static_cast<double>(at - first.newer.last_access) / static_cast<double>(first_width));
    const double rise =
        (second.older.efficiency - second.newer.efficiency) *
        (static_cast<double>(second.older.last_access - at) / static_cast<double>(second_width));
    const double height = (first.newer.efficiency - fall) - (second.older.efficiency + rise);
    const double magnitude = first.newer.efficiency + fall + second.older.efficiency + rise;
    const int sign = filtered_sign(height, magnitude);
    if (sign != kUndecided) return sign;

    // Both heights times both widths.
    const Factor width1 = Factor::of(first_width);
    const Factor width2 = Factor::of(second_width);
    return sign_of_sum(
        {{{width2, Factor::of(at - first.older.last_access), Factor::of(first.newer.efficiency)},
          {-width2, Factor::of(at - first.newer.last_access), Factor::of(first.older.efficiency)},
          {-width1, Factor::of(second.newer.last_access - at), Factor::of(second.older.efficiency)},
          {width1, Factor::of(second.older.last_access - at), Factor::of(second.newer.efficiency)}}});
}

}  // namespace marconi
