// An upper bound on what any policy can hit, knowing the future.
//
// To hit node x at request i, x's state and the KV of every edge e down to x must be held from the last
// request through e before i until i: bytes * requests waited. Charged so, no byte is charged twice at one
// time, because the next request through an edge or a state's node is the one that pays for it. A cache of C
// bytes has C * (requests - 1) to give. The bound is the largest sum of hit tokens (or of saved FLOPs) within
// that total, fractions of a hit allowed: the linear relaxation of a multiple-choice knapsack, solved
// by density over each request's upper hull. It bounds every admission and eviction, of every hard byte
// budget. It is not reachable in general: the total may be spent at the wrong time. After Berger, Beckmann
// and Harchol-Balter, "Practical bounds on optimal caching with variable object sizes" (SIGMETRICS 2018),
// here for nested prefixes.
#pragma once

#include <cstdint>

#include "marconi/prefix_cost.h"
#include "marconi/replay/outcome.h"
#include "marconi/trace/trace.h"

namespace marconi {

// Outcomes hold the hits of the solution for tokens, rounded down; bytes and victims are 0.
ReplayResult clairvoyant_bound(const Trace& trace, const PrefixCost& cost, std::int64_t capacity_bytes,
                               const Progress& progress);

}  // namespace marconi
