#include "marconi/utility_index.h"

#include <cmath>
#include <sstream>
#include <string>

#include "marconi/inverse_age.h"

namespace marconi {
namespace {

std::string shown(double value) {
    std::ostringstream text;
    text << value;
    return text.str();
}

double checked_alpha(double alpha) {
    if (std::isfinite(alpha) && alpha >= 0) return alpha;
    throw std::invalid_argument("alpha must be a finite number >= 0, got " + shown(alpha));
}

double checked_efficiency(double efficiency) {
    if (!std::isfinite(efficiency) || efficiency < 0) {
        throw std::invalid_argument("efficiency must be a finite number >= 0 (FLOPs per byte), got " +
                                    shown(efficiency));
    }
    return efficiency + 0.0;  // no negative zero
}

double linear_score(double alpha, const Summary& all, const Vertex& place) {
    double score = 0;
    const std::uint64_t range = all.max_last_access - all.min_last_access;
    const double efficiency_range = all.max_efficiency - all.min_efficiency;
    if (range > 0) {
        score = static_cast<double>(place.last_access - all.min_last_access) / static_cast<double>(range);
    }
    if (efficiency_range > 0) score += alpha * ((place.efficiency - all.min_efficiency) / efficiency_range);
    return score;
}

}  // namespace

UtilityIndex::UtilityIndex(double alpha, RecencyForm form) : alpha_(checked_alpha(alpha)), form_(form) {}

void UtilityIndex::set_alpha(double alpha) {
    alpha_ = checked_alpha(alpha);
}

void UtilityIndex::insert(std::int64_t id, std::uint64_t last_access, double efficiency) {
    if (id < 0) throw std::invalid_argument("node id must be >= 0, got " + std::to_string(id));
    const Vertex place{last_access, checked_efficiency(efficiency)};
    if (!members_.try_emplace(id, Member{place, false}).second) {
        throw std::invalid_argument("node " + std::to_string(id) + " is in the index already; use update()");
    }
    candidates_.insert({place, id});
}

void UtilityIndex::remove(std::int64_t id) {
    const Member& removed = member(id);
    if (!removed.is_locked) candidates_.erase({removed.place, id});
    members_.erase(id);
}

void UtilityIndex::clear() {
    members_.clear();
    candidates_.clear();
}

void UtilityIndex::touch(std::int64_t id, std::uint64_t last_access) {
    Member& touched = member(id);
    move(id, touched, {last_access, touched.place.efficiency});
}

void UtilityIndex::set_efficiency(std::int64_t id, double efficiency) {
    Member& changed = member(id);
    move(id, changed, {changed.place.last_access, checked_efficiency(efficiency)});
}

void UtilityIndex::update(std::int64_t id, std::uint64_t last_access, double efficiency) {
    move(id, member(id), {last_access, checked_efficiency(efficiency)});
}

bool UtilityIndex::lock(std::int64_t id) {
    Member& locked = member(id);
    if (locked.is_locked) return false;
    candidates_.erase({locked.place, id});
    locked.is_locked = true;
    return true;
}

bool UtilityIndex::unlock(std::int64_t id) {
    Member& unlocked = member(id);
    if (!unlocked.is_locked) return false;
    candidates_.insert({unlocked.place, id});
    unlocked.is_locked = false;
    return true;
}

std::optional<std::int64_t> UtilityIndex::victim(std::uint64_t now) const {
    const Candidate* victim = find_victim(now);
    if (victim == nullptr) return std::nullopt;
    return victim->id;
}

std::optional<std::int64_t> UtilityIndex::pop_victim(std::uint64_t now) {
    const Candidate* found = find_victim(now);
    if (found == nullptr) return std::nullopt;
    const Candidate victim = *found;
    candidates_.erase(victim);
    members_.erase(victim.id);
    return victim.id;
}

std::vector<std::pair<std::int64_t, double>> UtilityIndex::scores(std::uint64_t now) const {
    std::vector<std::pair<std::int64_t, double>> scores;
    if (candidates_.empty()) return scores;
    const Summary& all = candidates_.summary();
    if (form_ == RecencyForm::kInverseAge) require_later_than_all(now);
    const InverseAgeScore inverse_age(alpha_, now, all);
    const auto append = [&](const Candidate& candidate) {
        const bool is_linear = form_ == RecencyForm::kLinear;
        scores.emplace_back(candidate.id, is_linear
                                              ? linear_score(alpha_, all, candidate)
                                              : inverse_age(candidate.last_access, candidate.efficiency));
    };
    scores.reserve(candidates_.size());
    candidates_.for_each(append);
    return scores;
}

const UtilityIndex::Member& UtilityIndex::member(std::int64_t id) const {
    const auto found = members_.find(id);
    if (found == members_.end()) throw UnknownNode("node " + std::to_string(id) + " is not in the index");
    return found->second;
}

UtilityIndex::Member& UtilityIndex::member(std::int64_t id) {
    return const_cast<Member&>(std::as_const(*this).member(id));
}

void UtilityIndex::move(std::int64_t id, Member& member, Vertex place) {
    if (!member.is_locked && !(place == member.place)) {
        candidates_.erase({member.place, id});
        candidates_.insert({place, id});
    }
    member.place = place;
}

const Candidate* UtilityIndex::find_victim(std::uint64_t now) const {
    if (candidates_.empty()) return nullptr;
    const Summary& all = candidates_.summary();
    if (form_ == RecencyForm::kInverseAge) require_later_than_all(now);
    if (alpha_ == 0 || all.min_efficiency == all.max_efficiency) {
        // Inverse ages may tie in doubles where time stamps differ; the older still goes first.
        return &candidates_.oldest();
    }
    if (form_ == RecencyForm::kInverseAge) {
        return &minimum_inverse_age(candidates_, InverseAgeScore(alpha_, now, all));
    }
    const std::uint64_t range = all.max_last_access - all.min_last_access;
    return &candidates_.minimum(Direction(alpha_, range, all.min_efficiency, all.max_efficiency));
}

void UtilityIndex::require_later_than_all(std::uint64_t now) const {
    const std::uint64_t newest = candidates_.summary().max_last_access;
    if (now > newest) return;
    throw std::invalid_argument("now must be later than every last access for recency inverse_age, got now " +
                                std::to_string(now) + " and last access " + std::to_string(newest));
}

}  // namespace marconi
