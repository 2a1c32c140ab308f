"""The simulator's budget ``sglang`` gives the hits of the real server, request by request."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from conftest import ServerFactory, marconi
from random_prompts import Workload

from sglang_marconi import _core
from sglang_marconi.cost import PrefixCost
from sglang_marconi.sim import ReplayRun, replay
from sglang_marconi.sim.pools import Pools, Strategy
from sglang_marconi.sim.traces import read_trace

SEED = 21
POOLS: dict[Strategy, tuple[int, int]] = {"no_buffer": (2048, 10), "extra_buffer": (2048, 14)}


@pytest.mark.parametrize("strategy", sorted(POOLS))
def test_simulated_hits_are_the_servers(serve: ServerFactory, tmp_path: Path, strategy: Strategy) -> None:
    """Also when the simulator is given the trace that the server recorded."""
    kv_tokens, states = POOLS[strategy]
    flags = {"max-total-tokens": kv_tokens, "max-mamba-cache-size": states, "chunked-prefill-size": 256}
    config = {"alpha": 0.3, "record_folder": str(tmp_path)}
    server = serve(strategy=strategy, flags={**flags, "radix-eviction-policy-config": config})
    rng = random.Random(SEED)
    workload = Workload(rng)
    builder = _core.TokenTraceBuilder()
    hits = []
    for _ in range(60):
        prompt = [token % 230 + 10 for token in workload.prompt()[:600]]
        answer = server.generate(prompt, rng.randrange(1, 40))
        workload.histories.append(prompt + answer.token_ids)
        builder.add(np.array(prompt, dtype=np.uint32), np.array(answer.token_ids, dtype=np.uint32))
        hits.append(answer.cached_tokens)
    shown = marconi(server)
    totals = {name: pool["total"] for name, pool in shown["pools"].items()}
    pools = Pools(totals["kv"], totals["states"], chunked_prefill_size=256, strategy=strategy)
    run = ReplayRun("marconi", 0, PrefixCost(**shown["cost"]), alpha=0.3, pools=pools)
    assert shown["stats"]["states_evicted"] > 20
    for trace in (builder.build(), read_trace(shown["trace_file"])):
        assert replay(trace, run).native.hit_tokens.tolist() == hits, f"seed {SEED}"
