// Candidates as points (last access, efficiency), and the exact predicates on them.
//
// Every predicate first decides in doubles with a bound on the rounding error and falls back to exact
// sums when the bound does not exclude a tie, so its answer is that of real arithmetic.
#pragma once

#include <cstdint>
#include <tuple>

namespace marconi {

struct Vertex {
    std::uint64_t last_access;  // logical clock
    double efficiency;          // FLOPs per byte, finite, >= 0

    bool operator==(const Vertex& other) const {
        return last_access == other.last_access && efficiency == other.efficiency;
    }
};

struct Candidate : Vertex {
    std::int64_t id;

    // The order of ties: older first, then the lower id.
    [[nodiscard]] bool precedes(std::uint64_t other_last_access, std::int64_t other_id) const {
        return std::tie(last_access, id) < std::tie(other_last_access, other_id);
    }
};

// A line through two vertices with older.last_access < newer.last_access.
struct Edge {
    Vertex older;
    Vertex newer;
};

// Minimised functional of the linear form: the score times range_t * range_eff, which is free of divisions:
//   last_access * (max_efficiency - min_efficiency) + alpha * last_access_range * efficiency
struct Direction {
    Direction(double alpha, std::uint64_t last_access_range, double min_efficiency, double max_efficiency);

    // Sign of score(p) - score(q).
    [[nodiscard]] int compare(const Vertex& p, const Vertex& q) const;

  private:
    double alpha_;
    std::uint64_t last_access_range_;
    double min_efficiency_;
    double max_efficiency_;
    double last_access_weight_;
    double efficiency_weight_;
};

// Sign of (vertex's efficiency - the line's at its last access): above 1, on the line 0, below -1.
int side_of(const Edge& line, const Vertex& vertex);

// Sign of slope(first) - slope(second).
int compare_slopes(const Edge& first, const Edge& second);

// Sign of first(at) - second(at), for lines with falling efficiency and first.newer.last_access <= at
// <= second.older.last_access.
int compare_heights(const Edge& first, const Edge& second, std::uint64_t at);

}  // namespace marconi
