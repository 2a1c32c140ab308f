// Which cached node to evict: the exact minimum of Marconi's utility over the unlocked nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "marconi/hull_tree.h"

namespace marconi {

// An operation names a node that the index does not hold.
struct UnknownNode : std::out_of_range {
    using std::out_of_range::out_of_range;
};

enum class RecencyForm : std::uint8_t {
    kLinear,      // the time stamp itself
    kInverseAge,  // 1 / (now - time stamp)
};

// Nodes with S(n) = recency(n) + alpha * efficiency(n), both min-max normalised to [0, 1] over the current
// candidates, that is the unlocked nodes (Marconi, section 4.2). A term that is equal for all candidates is
// 0. Ties: older last access first, then the lower id.
//
// The linear form is compared in real arithmetic, no rounding at all: p goes before q if
//   (t_p - t_q) * (e_max - e_min) + alpha * (t_max - t_min) * (e_p - e_q) < 0
// for t and e as given. The inverse-age form is compared in doubles by the rule of InverseAgeScore.
//
// Takes 90 bytes a node when filled in order, 130 after random touches (200,000 nodes); room for the most
// nodes ever held is kept until clear(). Not thread-safe.
//
// Invalid arguments throw std::invalid_argument or UnknownNode and leave the index as it was.
class UtilityIndex {
  public:
    explicit UtilityIndex(double alpha = 0.0, RecencyForm form = RecencyForm::kLinear);
    UtilityIndex(const UtilityIndex&) = delete;
    UtilityIndex& operator=(const UtilityIndex&) = delete;
    UtilityIndex(UtilityIndex&&) = default;
    UtilityIndex& operator=(UtilityIndex&&) = default;
    ~UtilityIndex() = default;

    // Finite and >= 0. O(1), as is the form: nothing is kept per alpha.
    void set_alpha(double alpha);
    void set_recency_form(RecencyForm form) { form_ = form; }
    [[nodiscard]] double alpha() const { return alpha_; }
    [[nodiscard]] RecencyForm recency_form() const { return form_; }

    // id >= 0 and new; efficiency finite and >= 0, in FLOPs per byte. O(log n).
    void insert(std::int64_t id, std::uint64_t last_access, double efficiency);
    void remove(std::int64_t id);
    void clear();

    void touch(std::int64_t id, std::uint64_t last_access);
    void set_efficiency(std::int64_t id, double efficiency);
    void update(std::int64_t id, std::uint64_t last_access, double efficiency);

    // A locked node stays a member but is no candidate. Returns whether the call changed that.
    bool lock(std::int64_t id);
    bool unlock(std::int64_t id);
    [[nodiscard]] bool is_locked(std::int64_t id) const { return member(id).is_locked; }

    [[nodiscard]] bool contains(std::int64_t id) const { return members_.count(id) != 0; }
    [[nodiscard]] std::uint64_t last_access(std::int64_t id) const { return member(id).place.last_access; }
    [[nodiscard]] double efficiency(std::int64_t id) const { return member(id).place.efficiency; }
    [[nodiscard]] std::size_t size() const { return members_.size(); }
    [[nodiscard]] std::size_t candidates() const { return candidates_.size(); }

    // The candidate with the least score, none if there is no candidate. The inverse-age form requires now to
    // be later than every candidate's last access; the linear form ignores it.
    [[nodiscard]] std::optional<std::int64_t> victim(std::uint64_t now = 0) const;
    // victim(), removed from the index.
    std::optional<std::int64_t> pop_victim(std::uint64_t now = 0);

    // Every candidate's id and score, rounded to a double, in (last access, id) order. O(n).
    [[nodiscard]] std::vector<std::pair<std::int64_t, double>> scores(std::uint64_t now = 0) const;

  private:
    struct Member {
        Vertex place;
        bool is_locked;
    };

    [[nodiscard]] const Member& member(std::int64_t id) const;
    [[nodiscard]] Member& member(std::int64_t id);
    void move(std::int64_t id, Member& member, Vertex place);
    [[nodiscard]] const Candidate* find_victim(std::uint64_t now) const;
    void require_later_than_all(std::uint64_t now) const;

    double alpha_;
    RecencyForm form_;
    std::unordered_map<std::int64_t, Member> members_;
    HullTree candidates_;
};

}  // namespace marconi
