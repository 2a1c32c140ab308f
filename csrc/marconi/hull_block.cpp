#include "marconi/hull_block.h"

#include <algorithm>

namespace marconi {

Summary combine(const Summary& older, const Summary& newer) {
    Summary both = older;
    both.max_last_access = newer.max_last_access;
    if (older.min_last_access == newer.min_last_access) {
        both.first_efficiency = std::min(older.first_efficiency, newer.first_efficiency);
    }
    both.min_efficiency = std::min(older.min_efficiency, newer.min_efficiency);
    both.max_efficiency = std::max(older.max_efficiency, newer.max_efficiency);
    return both;
}

int HullBlock::position_of(const Candidate& candidate) const {
    const auto precedes = [](const Candidate& held, const Candidate& wanted) {
        return held.precedes(wanted.last_access, wanted.id);
    };
    return static_cast<int>(std::lower_bound(begin(), end(), candidate, precedes) - begin());
}

void HullBlock::insert(const Candidate& candidate) {
    const auto place = candidates_.begin() + position_of(candidate);
    std::move_backward(place, candidates_.begin() + size_, candidates_.begin() + size_ + 1);
    *place = candidate;
    ++size_;
    rebuild();
}

void HullBlock::erase(const Candidate& candidate) {
    const auto place = candidates_.begin() + position_of(candidate);
    std::move(place + 1, candidates_.begin() + size_, place);
    --size_;
    rebuild();
}

void HullBlock::split_into(HullBlock& newer, int position) {
    std::copy(begin() + position, end(), newer.candidates_.begin());
    newer.size_ = size_ - position;
    size_ = position;
    rebuild();
    newer.rebuild();
}

void HullBlock::append(const HullBlock& newer) {
    std::copy(newer.begin(), newer.end(), candidates_.begin() + size_);
    size_ += newer.size_;
    rebuild();
}

void HullBlock::rebuild() {
    if (size_ == 0) return;
    const auto by_efficiency = [](const Candidate& a, const Candidate& b) {
        return a.efficiency < b.efficiency;
    };
    const auto [lowest, highest] = std::minmax_element(begin(), end(), by_efficiency);
    summary_.min_efficiency = lowest->efficiency;
    summary_.max_efficiency = highest->efficiency;
    summary_.min_last_access = candidates_[0].last_access;
    summary_.first_id = candidates_[0].id;
    summary_.max_last_access = candidates_[size_ - 1].last_access;
    rebuild_hull();
    summary_.first_efficiency = hull_vertex(0).efficiency;
}

void HullBlock::rebuild_hull() {
    hull_size_ = 0;
    for (int i = 0; i < size_; ++i) {
        const Candidate& next = candidates_[i];
        if (hull_size_ > 0) {
            const Candidate& last = hull_vertex(hull_size_ - 1);
            if (next.efficiency >= last.efficiency) continue;
            if (next.last_access == last.last_access) --hull_size_;
        }
        while (hull_size_ >= 2 &&
               side_of({hull_vertex(hull_size_ - 2), hull_vertex(hull_size_ - 1)}, next) <= 0) {
            --hull_size_;
        }
        hull_[hull_size_++] = static_cast<std::uint8_t>(i);
    }
}

}  // namespace marconi
