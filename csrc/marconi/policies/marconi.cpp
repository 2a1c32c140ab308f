#include "marconi/policies/marconi.h"

namespace marconi {

MarconiPolicy::MarconiPolicy(const CacheTree& cache, const PolicyOptions& options)
    : cache_(cache),
      options_(options),
      states_(options.alpha, options.recency),
      shared_states_(options.alpha, options.recency),
      last_access_(cache.prefixes().size(), 0) {}

void MarconiPolicy::set_alpha(double alpha) {
    states_.set_alpha(alpha);
    shared_states_.set_alpha(alpha);
}

void MarconiPolicy::touch_hit(const CacheTree& /*cache*/, const Lookup& lookup) {
    if (lookup.hit != kRoot) touch_admitted(lookup.hit);
}

void MarconiPolicy::touch_admitted(NodeId node) {
    last_access_[node] = ++clock_;
    index_holding(node).touch(node, clock_);
}

void MarconiPolicy::lock(NodeId node) {
    index_holding(node).lock(node);
}

void MarconiPolicy::unlock(NodeId node) {
    index_holding(node).unlock(node);
}

NodeId MarconiPolicy::victim() {
    auto victim = states_.victim(clock_ + 1);
    if (!victim) victim = shared_states_.victim(clock_ + 1);
    return victim ? static_cast<NodeId>(*victim) : kNoNode;
}

void MarconiPolicy::state_changed(NodeId node) {
    const bool is_shared = cache_.children(node) > 1;
    UtilityIndex& index = is_shared ? shared_states_ : states_;
    UtilityIndex& other = is_shared ? states_ : shared_states_;
    if (index.contains(node)) return index.set_efficiency(node, efficiency(node));
    const bool was_locked = other.contains(node) && other.is_locked(node);
    if (other.contains(node)) other.remove(node);
    index.insert(node, last_access_[node], efficiency(node));
    if (was_locked) index.lock(node);
}

void MarconiPolicy::state_removed(NodeId node) {
    index_holding(node).remove(node);
}

double MarconiPolicy::efficiency(NodeId node) const {
    const PrefixCost& cost = cache_.cost();
    const double depth = cache_.prefixes().depth_tokens(node);
    const double flops = cost.prefill_flops(depth) - cost.prefill_flops(cache_.resume_depth_tokens(node));
    const double bytes =
        options_.bytes == BytesForm::kOwn
            ? static_cast<double>(cache_.freed_bytes(node))
            : static_cast<double>(cost.state_bytes) + static_cast<double>(cost.kv_bytes_per_token) * depth;
    return bytes > 0 ? flops / bytes : 0;
}

}  // namespace marconi
