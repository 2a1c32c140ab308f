"""What a trace is like: sizes, rate, and what an endless cache would reuse of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sglang_marconi._core import Trace
from sglang_marconi.cost import PrefixCost
from sglang_marconi.sim.replay import ReplayRun, run_search

_ENDLESS_BYTES = 2**60
# Sizes do not matter where nothing is evicted.
_ANY_COST = PrefixCost(1.0, 0.0, 1, 1)


def trace_stats(trace: Trace) -> dict[str, Any]:
    """Figures of a trace, ready for JSON.

    Reuse is given as shares of all prompt tokens with an endless cache: ``seen``, that an earlier prompt or reply
    begins with; ``every_block``, with a state every 32 tokens; ``judicious``, with states at branch points and after
    last tokens only.
    """
    prompts, replies, arrivals = trace.prompt_lengths(), trace.reply_lengths(), trace.arrivals_s()
    runs = [ReplayRun(policy, _ENDLESS_BYTES, _ANY_COST) for policy in ("vllm", "marconi")]
    every_block, judicious = run_search(trace, runs)
    total = max(1, trace.prompt_tokens)
    duration_s = float(arrivals.max() - arrivals.min()) if len(trace) else 0.0
    return {
        "requests": len(trace),
        "duration_s": duration_s,
        "requests_per_second": len(trace) / duration_s if duration_s else None,
        "prompt_tokens": _spread(prompts),
        "reply_tokens": _spread(replies),
        "reuse": {
            "seen": 1 - int(judicious.native.never_seen_tokens.sum()) / total,
            "every_block": every_block.token_hit_rate,
            "judicious": judicious.token_hit_rate,
        },
    }


def _spread(lengths: npt.NDArray[np.uint32]) -> dict[str, Any]:
    median, p95 = (int(value) for value in np.percentile(lengths, (50, 95))) if len(lengths) else (0, 0)
    return {"total": int(lengths.sum()), "median": median, "p95": p95, "max": int(lengths.max(initial=0))}
