// Requests over a shared prefix tree: read-only, shared by all replays.
#pragma once

#include <cstdint>
#include <vector>

#include "marconi/trace/prefix_tree.h"

namespace marconi {

struct Request {
    // Where the prompt ends, or the last whole block of it.
    NodeId prompt_end;
    // Where prompt and reply end, or the last of their whole blocks that are known. At or below prompt_end.
    NodeId sequence_end;
    std::uint32_t prompt_tokens;
    std::uint32_t reply_tokens;
    // Leading prompt tokens that an earlier request's prompt or reply also starts with.
    std::uint32_t seen_tokens;
    double arrival_s;
};

struct Trace {
    PrefixTree tree;
    std::vector<Request> requests;

    [[nodiscard]] std::uint64_t prompt_tokens() const;
    [[nodiscard]] std::size_t memory_bytes() const;
};

// Fills in seen_tokens.
void note_seen_tokens(Trace& trace);

// The same trace with a node at every multiple of grid_tokens.
Trace cut_at_grid(const Trace& trace, std::uint32_t grid_tokens);

}  // namespace marconi
