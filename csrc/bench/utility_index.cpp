// Times the utility index without Python and weighs it. Prints one JSON object per case and line.
// Arguments: node counts.
#include "marconi/utility_index.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace {

using marconi::RecencyForm;
using marconi::UtilityIndex;
using Clock = std::chrono::steady_clock;
using Random = std::mt19937_64;

constexpr int kSteps = 4000;
constexpr std::uint64_t kHorizon = 1u << 23;  // more time stamps than any case uses

struct Shape {
    const char* name;
    // Time stamp and efficiency of the step-th node.
    std::uint64_t (*last_access)(std::uint64_t step);
    double (*efficiency)(Random& random, std::uint64_t step);
    bool outlier_comes_and_goes = false;
};

std::uint64_t growing(std::uint64_t step) {
    return step;
}

double uniform(Random& random, std::uint64_t) {
    return std::uniform_real_distribution<double>(1e3, 1e6)(random);
}

constexpr Shape kShapes[] = {
    {"uniform efficiencies", growing, uniform},
    {"log-normal efficiencies", growing,
     [](Random& random, std::uint64_t) { return std::lognormal_distribution<double>(10, 2)(random); }},
    {"equal times", [](std::uint64_t) { return std::uint64_t{5}; }, uniform},
    {"equal efficiencies", growing, [](Random&, std::uint64_t) { return 42.0; }},
    {"all scores equal", growing,
     [](Random&, std::uint64_t step) { return static_cast<double>(kHorizon - step); }},
    {"falling with noise", growing,
     [](Random& random, std::uint64_t step) {
         return static_cast<double>(kHorizon - step) + std::uniform_real_distribution<double>(0, 100)(random);
     }},
    {"all on the hull", growing,
     [](Random&, std::uint64_t step) {
         const auto left = static_cast<double>(kHorizon - step);
         return left * left;
     }},
    {"range jumps", growing, uniform, true},
};

std::size_t heap_bytes() {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

struct Timing {
    std::vector<double> microseconds;

    template <typename Call>
    void measure(Call call) {
        const auto start = Clock::now();
        call();
        microseconds.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }

    [[nodiscard]] double mean() const {
        double sum = 0;
        for (const double us : microseconds) sum += us;
        return sum / static_cast<double>(microseconds.size());
    }

    [[nodiscard]] double percentile(std::size_t percent) {
        const std::size_t rank = microseconds.size() * percent / 100;
        const auto place = microseconds.begin() + static_cast<std::ptrdiff_t>(rank);
        std::nth_element(microseconds.begin(), place, microseconds.end());
        return *place;
    }
};

void run(const Shape& shape, RecencyForm form, double alpha, std::uint64_t nodes) {
    Random random(nodes);
    const std::size_t bytes_before = heap_bytes();
    UtilityIndex index(alpha, form);
    std::uint64_t step = 0;
    const auto insert_next = [&] {
        index.insert(static_cast<std::int64_t>(step), shape.last_access(step),
                     shape.efficiency(random, step));
        ++step;
    };
    while (step < nodes) insert_next();
    const std::size_t bytes = heap_bytes() - bytes_before;

    constexpr std::int64_t kOutlier = std::int64_t{1} << 40;
    Timing pop;
    Timing insert;
    Timing touch;
    for (int i = 0; i < kSteps; ++i) {
        if (shape.outlier_comes_and_goes && i % 2 == 0) index.insert(kOutlier, 0, 1e9);
        pop.measure([&] { index.pop_victim(step); });
        if (index.contains(kOutlier)) index.remove(kOutlier);
        insert.measure(insert_next);
        const auto id = static_cast<std::int64_t>(random() % step);
        if (!index.contains(id)) continue;
        // A touch keeps the case's shape: the node moves on to the next step's place.
        const std::uint64_t last_access = shape.last_access(step);
        const double efficiency = shape.efficiency(random, step++);
        touch.measure([&] { index.update(id, last_access, efficiency); });
    }
    std::printf(
        "{\"shape\": \"%s\", \"recency\": \"%s\", \"alpha\": %g, \"nodes\": %llu, \"pop_us\": %.3f, "
        "\"pop_p50_us\": %.3f, \"pop_p99_us\": %.3f, \"insert_us\": %.3f, \"touch_us\": %.3f, "
        "\"bytes_per_node\": %.0f}\n",
        shape.name, form == RecencyForm::kLinear ? "linear" : "inverse_age", alpha,
        static_cast<unsigned long long>(nodes), pop.mean(), pop.percentile(50), pop.percentile(99),
        insert.mean(), touch.mean(), static_cast<double>(bytes) / static_cast<double>(nodes));
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        const std::uint64_t nodes = std::strtoull(argv[i], nullptr, 10);
        for (const Shape& shape : kShapes) {
            for (const double alpha : {0.0, 0.01, 1.0, 1e6}) run(shape, RecencyForm::kLinear, alpha, nodes);
            for (const double alpha : {0.01, 1.0}) run(shape, RecencyForm::kInverseAge, alpha, nodes);
        }
    }
    return 0;
}
