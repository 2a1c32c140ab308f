// Fuzz target: bytes as operations on the utility index with any arguments, valid or not, checked against a
// scan.
//
// The scan compares with the index's own predicates and so covers every double; that those are exact is for
// the tests against 128-bit integers and Python's fractions to show.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "marconi/inverse_age.h"
#include "marconi/score_plane.h"
#include "marconi/utility_index.h"
#include "tests/scan.h"

namespace {

using marconi::RecencyForm;
using marconi::UtilityIndex;

class Input {
  public:
    Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

    [[nodiscard]] bool empty() const { return size_ == 0; }

    std::uint8_t byte() {
        if (size_ == 0) return 0;
        --size_;
        return *data_++;
    }

    std::uint64_t word() {
        std::uint64_t word = 0;
        for (int i = 0; i < 8; ++i) word = word << 8 | byte();
        return word;
    }

    // Small ones mostly, so that ids meet again and scores tie.
    std::uint64_t integer() {
        const std::uint8_t kind = byte();
        if (kind == 255) return word();
        if (kind >= 240) return (std::uint64_t{1} << (byte() % 64)) - kind % 3;
        return kind % 64;
    }

    double number() {
        const std::uint8_t kind = byte();
        double value = kind % 32;
        if (kind >= 250) {
            const std::uint64_t bits = word();
            std::memcpy(&value, &bits, sizeof value);
        } else if (kind >= 240) {
            value = static_cast<double>(integer()) * 0x1p-1074;
        } else if (kind >= 224) {
            value = -value;
        }
        return value;
    }

  private:
    const std::uint8_t* data_;
    std::size_t size_;
};

void require(bool holds, const char* rule) {
    if (holds) return;
    std::fprintf(stderr, "FAILED: %s\n", rule);
    std::abort();
}

class Run {
  public:
    explicit Run(Input input) : input_(input), index_(0.5) {}

    void all() {
        while (!input_.empty()) {
            try {
                step();
            } catch (const std::invalid_argument&) {
                ++refused_;
            } catch (const marconi::UnknownNode&) {
                ++refused_;
            }
            check();
        }
    }

  private:
    // The index goes first: if it refuses, the scan stays as it is.
    void step() {
        const std::uint8_t operation = input_.byte() % 16;
        const auto id = static_cast<std::int64_t>(input_.integer());
        switch (operation) {
            case 0:
                return set_alpha();
            case 1:
                form_ = form_ == RecencyForm::kLinear ? RecencyForm::kInverseAge : RecencyForm::kLinear;
                return index_.set_recency_form(form_);
            case 2:
                return pop();
            case 3:
                index_.remove(id);
                scan_.nodes.erase(id);
                return;
            case 4:
                index_.lock(id);
                scan_.nodes.at(id).is_locked = true;
                return;
            case 5:
                index_.unlock(id);
                scan_.nodes.at(id).is_locked = false;
                return;
            case 6:
            case 7:
                return touch(id);
            case 8:
                return set_efficiency(id);
            case 9:
                return update(id);
            default:
                return insert(id);
        }
    }

    void set_alpha() {
        const double alpha = input_.number();
        index_.set_alpha(alpha);
        alpha_ = alpha;
    }

    void pop() {
        const std::uint64_t now = input_.integer();
        const auto victim = index_.pop_victim(now);
        if (!victim) return require(scan_.candidates() == 0, "a candidate is a victim");
        require(victim == scanned_victim(now), "pop_victim removes the least");
        scan_.nodes.erase(*victim);
    }

    void touch(std::int64_t id) {
        const std::uint64_t last_access = input_.integer();
        index_.touch(id, last_access);
        scan_.nodes.at(id).last_access = last_access;
    }

    void set_efficiency(std::int64_t id) {
        const double efficiency = input_.number();
        index_.set_efficiency(id, efficiency);
        scan_.nodes.at(id).efficiency = efficiency;
    }

    void update(std::int64_t id) {
        const std::uint64_t last_access = input_.integer();
        const double efficiency = input_.number();
        index_.update(id, last_access, efficiency);
        scan_.nodes.at(id) = {last_access, efficiency, scan_.nodes.at(id).is_locked};
    }

    void insert(std::int64_t id) {
        const std::uint64_t last_access = input_.integer();
        const double efficiency = input_.number();
        index_.insert(id, last_access, efficiency);
        require(scan_.nodes.emplace(id, ScanNode{last_access, efficiency, false}).second, "ids are unique");
    }

    void check() {
        require(index_.size() == scan_.nodes.size(), "size counts the members");
        require(index_.candidates() == scan_.candidates(), "candidates counts the unlocked");
        if (form_ == RecencyForm::kInverseAge && scan_.range().newest == UINT64_MAX) return;
        const std::uint64_t now = scan_.range().newest + 1;
        require(index_.victim(now) == scanned_victim(now), "victim is the least");
    }

    [[nodiscard]] std::optional<std::int64_t> scanned_victim(std::uint64_t now) const {
        if (scan_.candidates() == 0) return std::nullopt;
        const ScanRange range = scan_.range();
        if (form_ == RecencyForm::kInverseAge) {
            marconi::Summary all{};
            all.min_last_access = range.oldest;
            all.max_last_access = range.newest;
            all.min_efficiency = range.lowest;
            all.max_efficiency = range.highest;
            const marconi::InverseAgeScore score(alpha_, now, all);
            return scan_.victim([&](const ScanNode& p, const ScanNode& q) {
                const double difference =
                    score(p.last_access, p.efficiency) - score(q.last_access, q.efficiency);
                return static_cast<int>(difference > 0) - static_cast<int>(difference < 0);
            });
        }
        // Without one of the terms the other decides alone.
        const bool by_age = alpha_ == 0 || range.lowest == range.highest;
        const marconi::Direction direction(alpha_, range.newest - range.oldest, range.lowest, range.highest);
        return scan_.victim([&](const ScanNode& p, const ScanNode& q) {
            return by_age ? 0
                          : direction.compare({p.last_access, p.efficiency}, {q.last_access, q.efficiency});
        });
    }

    Input input_;
    UtilityIndex index_;
    Scan scan_;
    RecencyForm form_ = RecencyForm::kLinear;
    double alpha_ = 0.5;
    std::uint64_t refused_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Run(Input(data, size)).all();
    return 0;
}
