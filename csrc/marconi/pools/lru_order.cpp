#include "marconi/pools/lru_order.h"

#include <string>

namespace marconi {

void LruOrder::clear() {
    states_.clear();
    leaves_.clear();
    records_.clear();
}

void LruOrder::node_added(TreeNodeId node, TreeNodeId parent, std::uint32_t /*tokens*/) {
    records_.insert_or_assign(node, Record{parent, next_tick()});
}

void LruOrder::node_split(TreeNodeId prefix, TreeNodeId suffix, std::uint32_t /*suffix_tokens*/) {
    const TreeNodeId parent = record(suffix).parent;
    records_.insert_or_assign(prefix, Record{parent, next_tick()});
    record(suffix).parent = prefix;
    access(suffix, next_tick());
}

void LruOrder::state_admitted(TreeNodeId node) {
    const std::uint64_t now = next_tick();
    access(node, now);
    states_.insert(node, now, 0);
    if (record(node).is_locked) states_.lock(node);
}

void LruOrder::set_state_locked(TreeNodeId node, bool is_locked) {
    record(node).is_locked = is_locked;
    if (!states_.contains(node)) return;
    if (is_locked) {
        states_.lock(node);
    } else {
        states_.unlock(node);
    }
}

void LruOrder::touch_hit(TreeNodeId node) {
    std::uint64_t time = next_tick();
    states_.touch(node, time);
    while (records_.count(node) != 0) {
        access(node, time--);
        node = record(node).parent;
    }
}

void LruOrder::touch_admitted(TreeNodeId node) {
    const std::uint64_t now = next_tick();
    states_.touch(node, now);
    access(node, now);
}

LruOrder::Record& LruOrder::record(TreeNodeId node) {
    const auto found = records_.find(node);
    if (found == records_.end()) throw UnknownNode("node " + std::to_string(node) + " is not in the tree");
    return found->second;
}

void LruOrder::access(TreeNodeId node, std::uint64_t time) {
    record(node).last_access = time;
    if (leaves_.contains(node)) leaves_.touch(node, time);
}

}  // namespace marconi
