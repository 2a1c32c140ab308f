// The utility index against a scan in 128-bit integers, over random sequences of operations.
// Arguments: steps per scenario, seed. Prints what failed with its seed and exits with 1.
#include "marconi/utility_index.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>

#include "tests/scan.h"

namespace {

using marconi::RecencyForm;
using marconi::UtilityIndex;
using Random = std::mt19937_64;
__extension__ using Wide = unsigned __int128;

// Scores are integers when efficiencies are and alpha counts sixteenths.
constexpr std::uint64_t kAlphaDenominator = 16;
constexpr std::uint64_t kAlphaNumerators[] = {0, 1, 2, 8, 16, 23, 32, 16000000};

constexpr std::uint64_t kFar = std::uint64_t{1} << 50;

std::uint64_t below(Random& random, std::uint64_t limit) {
    return random() % limit;
}

struct World {
    const char* name;
    std::uint64_t (*last_access)(Random& random, std::uint64_t step);
    std::uint64_t (*efficiency)(Random& random, std::uint64_t step);
};

std::uint64_t growing(Random&, std::uint64_t step) {
    return step;
}

std::uint64_t scattered(Random&, std::uint64_t step) {
    return step * 0x9E3779B97F4A7C15U % kFar;
}

constexpr World kWorlds[] = {
    {"growing times", growing, [](Random& r, std::uint64_t) { return below(r, 1000000); }},
    {"small grid", [](Random& r, std::uint64_t) { return below(r, 30); },
     [](Random& r, std::uint64_t) { return below(r, 30); }},
    {"tiny grid", [](Random& r, std::uint64_t) { return below(r, 4); },
     [](Random& r, std::uint64_t) { return below(r, 4); }},
    {"equal times", [](Random&, std::uint64_t) { return std::uint64_t{9}; },
     [](Random& r, std::uint64_t) { return below(r, 100); }},
    {"equal efficiencies", [](Random& r, std::uint64_t) { return below(r, 1000); },
     [](Random&, std::uint64_t) { return std::uint64_t{7}; }},
    {"one line", growing, [](Random&, std::uint64_t step) { return kFar - step; }},
    {"one line with duplicates", [](Random&, std::uint64_t step) { return step / 3; },
     [](Random&, std::uint64_t step) { return kFar - step / 3; }},
    {"parallel lines", growing, [](Random& r, std::uint64_t step) { return kFar - step + below(r, 3); }},
    {"convex", growing,
     [](Random&, std::uint64_t step) { return ((1U << 21) - step) * ((1U << 21) - step); }},
    // A place holds many nodes: ties cross the borders of blocks and subtrees.
    {"convex with duplicates", [](Random&, std::uint64_t step) { return step % 37; },
     [](Random&, std::uint64_t step) { return (37 - step % 37) * (37 - step % 37); }},
    // Scores differ by less than a double tells apart.
    {"line with noise", scattered,
     [](Random& r, std::uint64_t step) {
         return 8 * (kFar - scattered(r, step)) + static_cast<std::uint64_t>(below(r, 8) == 0);
     }},
    {"concave", growing, [](Random&, std::uint64_t step) { return kFar - step * step; }},
    {"times near 2**62", [](Random& r, std::uint64_t) { return (std::uint64_t{1} << 62) + below(r, 50); },
     [](Random& r, std::uint64_t) { return (std::uint64_t{1} << 52) + below(r, 50); }},
    {"one outlier comes and goes", growing,
     [](Random& r, std::uint64_t) { return below(r, 10) == 0 ? kFar : below(r, 1000); }},
};

class Scenario {
  public:
    Scenario(const World& world, RecencyForm form, std::size_t most_nodes, std::uint64_t seed)
        : world_(world), form_(form), most_nodes_(most_nodes), random_(seed), index_(1.0, form) {}

    // False at the first difference.
    bool run(std::uint64_t steps) {
        // A scan takes as long as there are nodes.
        const std::uint64_t check_interval = 1 + most_nodes_ / 50;
        for (step_ = 0; step_ < steps; ++step_) {
            if (!change()) return false;
            if (below(random_, 20) == 0) choose_alpha();
            if (step_ % check_interval == 0 && !agrees()) return false;
        }
        return true;
    }

    [[nodiscard]] std::uint64_t step() const { return step_; }

  private:
    void choose_alpha() {
        const bool is_common = below(random_, 2) == 0;
        alpha_numerator_ = is_common ? kAlphaNumerators[below(random_, std::size(kAlphaNumerators))]
                                     : below(random_, 50 * kAlphaDenominator);
        index_.set_alpha(alpha());
    }

    [[nodiscard]] double alpha() const {
        return static_cast<double>(alpha_numerator_) / static_cast<double>(kAlphaDenominator);
    }

    bool change() {
        const std::uint64_t choice = below(random_, 10);
        if (scan_.nodes.empty() || (choice < 4 && scan_.nodes.size() < most_nodes_)) return insert();
        if (choice == 9) return pop();
        const std::int64_t id = scan_.id_at(random_());
        ScanNode& node = scan_.nodes.at(id);
        switch (choice) {
            case 4:
                node.last_access = world_.last_access(random_, step_);
                index_.touch(id, node.last_access);
                return true;
            case 5:
                node.efficiency = static_cast<double>(world_.efficiency(random_, step_));
                index_.set_efficiency(id, node.efficiency);
                return true;
            case 6:
                scan_.nodes.erase(id);
                index_.remove(id);
                return true;
            case 7:
                return set_lock(id, node, below(random_, 3) == 0);
            default:
                node.last_access = world_.last_access(random_, step_);
                node.efficiency = static_cast<double>(world_.efficiency(random_, step_));
                index_.update(id, node.last_access, node.efficiency);
                return true;
        }
    }

    bool insert() {
        const auto id = static_cast<std::int64_t>(below(random_, INT64_MAX));
        const std::uint64_t last_access = world_.last_access(random_, step_);
        const auto efficiency = static_cast<double>(world_.efficiency(random_, step_));
        scan_.nodes[id] = {last_access, efficiency, false};
        index_.insert(id, last_access, efficiency);
        return true;
    }

    bool set_lock(std::int64_t id, ScanNode& node, bool is_locked) {
        const bool changed = is_locked ? index_.lock(id) : index_.unlock(id);
        const bool should_change = node.is_locked != is_locked;
        node.is_locked = is_locked;
        return changed == should_change;
    }

    bool pop() {
        const std::uint64_t now = later();
        const auto expected = scanned_victim(now);
        if (expected) scan_.nodes.erase(*expected);
        return index_.pop_victim(now) == expected;
    }

    bool agrees() {
        const std::uint64_t now = later();
        return index_.size() == scan_.nodes.size() && index_.candidates() == scan_.candidates() &&
               index_.victim(now) == scanned_victim(now);
    }

    std::uint64_t later() {
        const std::uint64_t newest = scan_.candidates() == 0 ? 0 : scan_.range().newest;
        return newest + 1 + (below(random_, 2) == 0 ? 0 : below(random_, kFar));
    }

    [[nodiscard]] std::optional<std::int64_t> scanned_victim(std::uint64_t now) const {
        const ScanRange range = scan_.range();
        if (form_ == RecencyForm::kLinear) {
            return scan_.victim([&](const ScanNode& p, const ScanNode& q) {
                return order(linear_score(p, range), linear_score(q, range));
            });
        }
        return scan_.victim([&](const ScanNode& p, const ScanNode& q) {
            return order(inverse_age_score(p, range, now), inverse_age_score(q, range, now));
        });
    }

    template <typename Score>
    static int order(Score p, Score q) {
        return p < q ? -1 : static_cast<int>(p > q);
    }

    // The score times both ranges and alpha's denominator.
    [[nodiscard]] Wide linear_score(const ScanNode& node, const ScanRange& range) const {
        const Wide age = node.last_access - range.oldest;
        const auto efficiency = static_cast<std::uint64_t>(node.efficiency - range.lowest);
        const auto efficiency_range = static_cast<std::uint64_t>(range.highest - range.lowest);
        const std::uint64_t age_range = range.newest - range.oldest;
        if (efficiency_range == 0) return age;
        if (age_range == 0) return Wide{alpha_numerator_} * efficiency;
        return age * efficiency_range * kAlphaDenominator + Wide{alpha_numerator_} * age_range * efficiency;
    }

    [[nodiscard]] double inverse_age_score(const ScanNode& node, const ScanRange& range,
                                           std::uint64_t now) const {
        const double least = 1.0 / static_cast<double>(now - range.oldest);
        const double most = 1.0 / static_cast<double>(now - range.newest);
        double score = 0.0;
        if (most > least)
            score = (1.0 / static_cast<double>(now - node.last_access) - least) / (most - least);
        if (range.highest > range.lowest) {
            score += alpha() * ((node.efficiency - range.lowest) / (range.highest - range.lowest));
        }
        return score;
    }

    const World& world_;
    RecencyForm form_;
    std::size_t most_nodes_;
    Random random_;
    UtilityIndex index_;
    Scan scan_;
    std::uint64_t alpha_numerator_ = kAlphaDenominator;
    std::uint64_t step_ = 0;
};

bool run_all(std::uint64_t steps, std::uint64_t seed) {
    std::uint64_t total = 0;
    for (const World& world : kWorlds) {
        for (const RecencyForm form : {RecencyForm::kLinear, RecencyForm::kInverseAge}) {
            for (const std::size_t most_nodes : {10U, 100U, 3000U}) {
                Scenario scenario(world, form, most_nodes, seed);
                if (!scenario.run(steps)) {
                    std::printf("FAILED: %s, form %d, at most %zu nodes, seed %llu, step %llu\n", world.name,
                                static_cast<int>(form), most_nodes, static_cast<unsigned long long>(seed),
                                static_cast<unsigned long long>(scenario.step()));
                    return false;
                }
                total += steps;
            }
        }
    }
    std::printf("utility index: %llu steps agree with the scan (seed %llu)\n",
                static_cast<unsigned long long>(total), static_cast<unsigned long long>(seed));
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    const std::uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 50000;
    const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::random_device{}();
    try {
        return run_all(steps, seed) ? 0 : 1;
    } catch (const std::exception& error) {
        std::printf("FAILED: %s (seed %llu)\n", error.what(), static_cast<unsigned long long>(seed));
        return 1;
    }
}
