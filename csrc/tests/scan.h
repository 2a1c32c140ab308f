// The brute-force reference of the utility index: plain nodes and a scan for the least of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>

struct ScanNode {
    std::uint64_t last_access;
    double efficiency;
    bool is_locked;
};

// What normalisation needs.
struct ScanRange {
    std::uint64_t oldest = UINT64_MAX;
    std::uint64_t newest = 0;
    double lowest = 0;
    double highest = 0;
};

class Scan {
  public:
    std::map<std::int64_t, ScanNode> nodes;

    [[nodiscard]] std::size_t candidates() const {
        return static_cast<std::size_t>(std::count_if(
            nodes.begin(), nodes.end(), [](const auto& node) { return !node.second.is_locked; }));
    }

    [[nodiscard]] ScanRange range() const {
        ScanRange range;
        bool is_first = true;
        for (const auto& [id, node] : nodes) {
            if (node.is_locked) continue;
            range.oldest = std::min(range.oldest, node.last_access);
            range.newest = std::max(range.newest, node.last_access);
            range.lowest = is_first ? node.efficiency : std::min(range.lowest, node.efficiency);
            range.highest = is_first ? node.efficiency : std::max(range.highest, node.efficiency);
            is_first = false;
        }
        return range;
    }

    // compare(p, q): negative, zero or positive as p's score is less than, equal to or greater than q's.
    template <typename Compare>
    [[nodiscard]] std::optional<std::int64_t> victim(Compare compare) const {
        std::optional<std::int64_t> best;
        for (const auto& [id, node] : nodes) {
            if (node.is_locked) continue;
            if (best) {
                const ScanNode& least = nodes.at(*best);
                const int order = compare(node, least);
                // Ids rise along the map, so the lower id stays on a full tie.
                if (order > 0 || (order == 0 && node.last_access >= least.last_access)) continue;
            }
            best = id;
        }
        return best;
    }

    // Requires at least one node.
    [[nodiscard]] std::int64_t id_at(std::size_t rank) const {
        return std::next(nodes.begin(), static_cast<std::ptrdiff_t>(rank % nodes.size()))->first;
    }
};
