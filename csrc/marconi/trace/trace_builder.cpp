#include "marconi/trace/trace_builder.h"

#include <stdexcept>
#include <string>

namespace marconi {
namespace {

// Structure without units; node ids stay.
template <typename Unit>
PrefixTree structure_of(const RadixTree<Unit>& tree, std::uint32_t tokens_per_unit) {
    std::vector<std::pair<NodeId, std::uint32_t>> nodes;
    nodes.reserve(tree.size());
    for (NodeId node = 0; node < tree.size(); ++node)
        nodes.emplace_back(tree.parent(node), tree.depth(node) * tokens_per_unit);
    return PrefixTree(nodes);
}

void require_countable(std::uint64_t prompt_tokens, std::uint64_t reply_tokens) {
    // Block grids cut every sequence into nodes: the limit bounds what one line can take.
    if (prompt_tokens + reply_tokens <= std::uint64_t{1} << 24) return;
    throw std::length_error("a request may have at most 2^24 tokens, got " +
                            std::to_string(prompt_tokens + reply_tokens));
}

}  // namespace

std::size_t TokenTraceBuilder::add(Tokens prompt, Tokens reply, double arrival_s) {
    require_countable(prompt.size, reply.size);
    return add_from(kRoot, prompt, reply, arrival_s);
}

std::size_t TokenTraceBuilder::add_continuation(std::size_t base, std::uint32_t keep_tokens, Tokens added,
                                                Tokens reply, double arrival_s) {
    if (base >= requests_.size()) {
        throw std::invalid_argument("base must be an earlier request, got " + std::to_string(base) +
                                    " after " + std::to_string(requests_.size()) + " requests");
    }
    const Request& kept = requests_[base];
    if (keep_tokens > tree_.depth(kept.sequence_end)) {
        throw std::invalid_argument("keep_tokens must be at most the base's prompt and reply (" +
                                    std::to_string(tree_.depth(kept.sequence_end)) + "), got " +
                                    std::to_string(keep_tokens));
    }
    require_countable(std::uint64_t{keep_tokens} + added.size, reply.size);
    return add_from(tree_.node_at(kept.sequence_end, keep_tokens), added, reply, arrival_s);
}

std::size_t TokenTraceBuilder::add_from(NodeId node, Tokens added, Tokens reply, double arrival_s) {
    const NodeId prompt_end = tree_.extend(node, added);
    const NodeId sequence_end = tree_.extend(prompt_end, reply);
    requests_.push_back({prompt_end, sequence_end, tree_.depth(prompt_end),
                         static_cast<std::uint32_t>(reply.size), 0, arrival_s});
    return requests_.size() - 1;
}

void TokenTraceBuilder::set_reply(std::size_t request, Tokens reply) {
    Request& changed = requests_.at(request);
    require_countable(changed.prompt_tokens, reply.size);
    changed.sequence_end = tree_.extend(changed.prompt_end, reply);
    changed.reply_tokens = static_cast<std::uint32_t>(reply.size);
}

std::size_t TokenTraceBuilder::memory_bytes() const {
    return tree_.memory_bytes() + requests_.capacity() * sizeof(Request);
}

Trace TokenTraceBuilder::build() const {
    Trace trace;
    trace.tree = structure_of(tree_, 1);
    trace.requests = requests_;
    note_seen_tokens(trace);
    return trace;
}

BlockTraceBuilder::BlockTraceBuilder(std::uint32_t block_tokens) : block_tokens_(block_tokens) {
    if (block_tokens == 0) throw std::invalid_argument("block_tokens must be > 0");
}

std::size_t BlockTraceBuilder::add(Blocks whole_blocks, std::uint32_t prompt_tokens,
                                   std::uint32_t reply_tokens, std::int64_t session, double arrival_s) {
    require_countable(prompt_tokens, reply_tokens);
    if (whole_blocks.size > prompt_tokens / block_tokens_) {
        throw std::invalid_argument("a prompt of " + std::to_string(prompt_tokens) + " tokens has at most " +
                                    std::to_string(prompt_tokens / block_tokens_) + " whole blocks, got " +
                                    std::to_string(whole_blocks.size));
    }
    const bool ends_in_new_block = tree_.match(whole_blocks).depth < whole_blocks.size;
    const NodeId prompt_end = tree_.extend(kRoot, whole_blocks);
    requests_.push_back({prompt_end, prompt_tokens, reply_tokens, session, arrival_s, ends_in_new_block});
    return requests_.size() - 1;
}

std::size_t BlockTraceBuilder::memory_bytes() const {
    return tree_.memory_bytes() + requests_.capacity() * sizeof(BlockRequest);
}

std::vector<NodeId> BlockTraceBuilder::repeated_ends(RadixTree<std::uint64_t>& tree) const {
    constexpr std::size_t kNone = SIZE_MAX;
    std::vector<NodeId> ends(requests_.size(), kNoNode);
    // The next request whose prompt runs through a node, filled from the last request to the first.
    std::vector<std::size_t> next(tree.size(), kNone);
    for (std::size_t i = requests_.size(); i-- > 0;) {
        const BlockRequest& request = requests_[i];
        const std::size_t later = request.prompt_end < next.size() ? next[request.prompt_end] : kNone;
        const std::uint32_t tokens = request.prompt_tokens + request.reply_tokens;
        if (later != kNone && request.ends_in_new_block && requests_[later].session == request.session &&
            requests_[later].prompt_tokens >= tokens &&
            tree.depth(requests_[later].prompt_end) >= tokens / block_tokens_) {
            ends[i] = tree.node_at(requests_[later].prompt_end, tokens / block_tokens_);
            next.resize(tree.size(), kNone);
        }
        for (NodeId node = request.prompt_end; node != kRoot; node = tree.parent(node)) next[node] = i;
    }
    return ends;
}

Trace BlockTraceBuilder::build() const {
    RadixTree<std::uint64_t> tree = tree_;
    const std::vector<NodeId> ends = repeated_ends(tree);
    Trace trace;
    trace.tree = structure_of(tree, block_tokens_);
    for (std::size_t i = 0; i < requests_.size(); ++i) {
        const BlockRequest& request = requests_[i];
        NodeId prompt_end = request.prompt_end;
        NodeId sequence_end = ends[i];
        if (sequence_end == kNoNode) {
            prompt_end = trace.tree.add(prompt_end, request.prompt_tokens);
            sequence_end = trace.tree.add(prompt_end, request.prompt_tokens + request.reply_tokens);
        }
        trace.requests.push_back(
            {prompt_end, sequence_end, request.prompt_tokens, request.reply_tokens, 0, request.arrival_s});
    }
    note_seen_tokens(trace);
    return trace;
}

}  // namespace marconi
