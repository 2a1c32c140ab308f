#include "marconi/replay/artifact_blocks.h"

#include <algorithm>

namespace marconi {

ArtifactBlockCache::ArtifactBlockCache(const Trace& trace, const PrefixCost& cost,
                                       std::int64_t capacity_bytes)
    : trace_(trace),
      cost_(cost),
      capacity_bytes_(capacity_bytes),
      children_(trace.tree.size(), 0),
      last_access_(trace.tree.size(), 0),
      is_cached_(trace.tree.size(), 0),
      was_cached_(trace.tree.size(), 0) {
    is_cached_[kRoot] = 1;
}

Outcome ArtifactBlockCache::serve(const Request& request) {
    Outcome outcome;
    blocks_to(request.prompt_end);
    std::size_t once = 0;
    while (once < path_.size() && was_cached_[path_[once]] != 0) ++once;
    outcome.hit_tokens = static_cast<std::uint32_t>(touch_cached()) * kBlockTokens;
    outcome.evicted_tokens = static_cast<std::uint32_t>(once) * kBlockTokens - outcome.hit_tokens;
    outcome.never_seen_tokens = request.prompt_tokens - request.seen_tokens;
    outcome.not_admitted_tokens = request.seen_tokens - outcome.evicted_tokens - outcome.hit_tokens;
    outcome.flops_saved = cost_.prefill_flops(outcome.hit_tokens);

    blocks_to(request.sequence_end);
    insert(outcome);
    outcome.kv_bytes = blocks_ * kBlockTokens * cost_.kv_bytes_per_token;
    outcome.state_bytes = blocks_ * cost_.state_bytes;
    outcome.is_cached = true;
    return outcome;
}

void ArtifactBlockCache::blocks_to(NodeId node) {
    path_.clear();
    for (; node != kRoot; node = trace_.tree.parent(node)) {
        if (is_block_end(node)) path_.push_back(node);
    }
    std::reverse(path_.begin(), path_.end());
}

std::size_t ArtifactBlockCache::touch_cached() {
    ++clock_;
    std::size_t cached = 0;
    for (; cached < path_.size() && is_cached_[path_[cached]] != 0; ++cached) {
        last_access_[path_[cached]] = clock_;
        if (leaves_.contains(path_[cached])) leaves_.touch(path_[cached], clock_);
    }
    return cached;
}

void ArtifactBlockCache::insert(Outcome& outcome) {
    ++clock_;
    const std::size_t cached = touch_cached();
    const std::int64_t block_bytes = cost_.state_bytes + kBlockTokens * cost_.kv_bytes_per_token;
    const auto new_blocks = static_cast<std::int64_t>(path_.size() - cached);
    std::int64_t shortage = (blocks_ + new_blocks) * block_bytes - capacity_bytes_;
    if (shortage > 0) ++clock_;
    for (; shortage > 0 && leaves_.size() > 0; shortage -= block_bytes) {
        evict_oldest_leaf();
        ++outcome.leaf_victims;
    }
    for (const NodeId block : path_) {
        if (is_cached_[block] == 0) add(block);
    }
}

void ArtifactBlockCache::add(NodeId block) {
    is_cached_[block] = was_cached_[block] = 1;
    last_access_[block] = clock_;
    ++blocks_;
    const NodeId parent = parent_block(block);
    ++children_[parent];
    if (leaves_.contains(parent)) leaves_.remove(parent);
    leaves_.insert(block, clock_, 0);
}

void ArtifactBlockCache::evict_oldest_leaf() {
    const auto block = static_cast<NodeId>(*leaves_.pop_victim());
    is_cached_[block] = 0;
    --blocks_;
    const NodeId parent = parent_block(block);
    if (--children_[parent] == 0 && parent != kRoot) leaves_.insert(parent, last_access_[parent], 0);
}

NodeId ArtifactBlockCache::parent_block(NodeId block) const {
    do block = trace_.tree.parent(block);
    while (!is_block_end(block));
    return block;
}

}  // namespace marconi
