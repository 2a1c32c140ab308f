#include "marconi/policies/lru.h"

namespace marconi {

LruPolicy::LruPolicy(const CacheTree& cache, Candidates candidates, Touch touch)
    : cache_(cache), candidates_(candidates), touch_(touch), last_access_(cache.prefixes().size(), 0) {}

void LruPolicy::touch_hit(const CacheTree& cache, const Lookup& lookup) {
    ++clock_;
    if (touch_ == Touch::kHit) {
        if (lookup.hit != kRoot) touch(lookup.hit);
        return;
    }
    for (std::size_t i = 0; i < lookup.cached_prompt_nodes; ++i) {
        if (cache.has_state(lookup.path[i])) touch(lookup.path[i]);
    }
}

void LruPolicy::touch_admitted(NodeId node) {
    ++clock_;
    touch(node);
}

void LruPolicy::touch(NodeId node) {
    last_access_[node] = clock_;
    if (index_.contains(node)) index_.touch(node, clock_);
}

void LruPolicy::lock(NodeId node) {
    if (index_.contains(node)) index_.lock(node);
}

void LruPolicy::unlock(NodeId node) {
    if (index_.contains(node)) index_.unlock(node);
}

NodeId LruPolicy::victim() {
    const auto victim = index_.victim();
    return victim ? static_cast<NodeId>(*victim) : kNoNode;
}

void LruPolicy::state_changed(NodeId node) {
    const bool is_candidate = candidates_ == Candidates::kAllStates || cache_.children(node) == 0;
    if (is_candidate == index_.contains(node)) return;
    if (is_candidate) {
        index_.insert(node, last_access_[node], 0);
    } else {
        index_.remove(node);
    }
}

void LruPolicy::state_removed(NodeId node) {
    if (index_.contains(node)) index_.remove(node);
}

}  // namespace marconi
