// Builds traces from requests in the order in which they are served.
#pragma once

#include <cstdint>
#include <vector>

#include "marconi/trace/radix_tree.h"
#include "marconi/trace/trace.h"

namespace marconi {

// Requests given as tokens.
class TokenTraceBuilder {
  public:
    using Tokens = UnitSpan<std::uint32_t>;

    // Returns the request's number.
    std::size_t add(Tokens prompt, Tokens reply, double arrival_s);
    // The prompt is the first keep_tokens of (prompt + reply) of request `base`, then `added`.
    std::size_t add_continuation(std::size_t base, std::uint32_t keep_tokens, Tokens added, Tokens reply,
                                 double arrival_s);
    // The reply of an earlier request that was added without one.
    void set_reply(std::size_t request, Tokens reply);

    [[nodiscard]] std::size_t size() const { return requests_.size(); }
    // Leading tokens of a prompt that the requests so far hold.
    [[nodiscard]] std::uint32_t match_tokens(Tokens prompt) const { return tree_.match(prompt).depth; }
    [[nodiscard]] std::size_t memory_bytes() const;
    [[nodiscard]] Trace build() const;

  private:
    std::size_t add_from(NodeId node, Tokens added, Tokens reply, double arrival_s);

    RadixTree<std::uint32_t> tree_;
    std::vector<Request> requests_;
};

// Requests given as hashes of the whole blocks of their prompts: equal prefixes of hashes mean equal tokens.
//
// A reply is known only from a later prompt that repeats it. The first later request of the session that
// starts with all whole blocks of a prompt and is at least as long as prompt and reply is taken to repeat
// both, if the prompt's last whole block was new: then the sequence ends at the last whole block before
// the end of the reply. Otherwise it ends with the prompt's own blocks, a private rest and the reply.
class BlockTraceBuilder {
  public:
    using Blocks = UnitSpan<std::uint64_t>;

    explicit BlockTraceBuilder(std::uint32_t block_tokens);

    // Requires whole_blocks.size <= prompt_tokens / block_tokens. A session of -1 is not known.
    std::size_t add(Blocks whole_blocks, std::uint32_t prompt_tokens, std::uint32_t reply_tokens,
                    std::int64_t session, double arrival_s);

    [[nodiscard]] std::size_t size() const { return requests_.size(); }
    [[nodiscard]] std::size_t memory_bytes() const;
    [[nodiscard]] Trace build() const;

  private:
    struct BlockRequest {
        NodeId prompt_end;
        std::uint32_t prompt_tokens;
        std::uint32_t reply_tokens;
        std::int64_t session;
        double arrival_s;
        bool ends_in_new_block;
    };

    // Per request the node that prompt and reply end at, kNoNode where no later prompt repeats them.
    [[nodiscard]] std::vector<NodeId> repeated_ends(RadixTree<std::uint64_t>& tree) const;

    std::uint32_t block_tokens_;
    RadixTree<std::uint64_t> tree_;
    std::vector<BlockRequest> requests_;
};

}  // namespace marconi
