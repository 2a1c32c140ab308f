"""Several ranks and several replicas: ranks decide alike, replicas each keep a cache of their own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import STRATEGIES, STRICT, Tokens, check_pools_whole, marconi
from random_requests import RandomRequests, mismatches
from recording_server import CLEARED, RECORD_FOLDER

from sglang_marconi.platform.server import TinyServer

#: Enough for the tuner's smallest window. A thousand takes minutes, by hand:
#: MARCONI_TEST_REQUESTS=1000 pytest -s tests/server/test_parallel.py
REQUESTS = int(os.environ.get("MARCONI_TEST_REQUESTS", "160"))
SEED = int(os.environ.get("MARCONI_TEST_SEED", "11"))
#: SGLang compares the ranks' calls into the cache and ends the server where they differ.
CONSENSUS = {"SGLANG_ENABLE_RANK_CONSENSUS_CHECKER": "1"}
#: Room for a few of the running requests' prompts and states: everything else is evicted again and again.
PRESSURE: dict[str, dict[str, object]] = {
    "no_buffer": {"max-total-tokens": 2048, "max-mamba-cache-size": 16},
    "extra_buffer": {"max-total-tokens": 2048, "max-mamba-cache-size": 28},
}


@pytest.mark.parametrize(
    ("family", "parallel", "strategy", "alpha"),
    [
        ("falcon_h1", "tp", "no_buffer", "auto"),
        ("falcon_h1", "tp", "extra_buffer", 0.5),
        ("nemotron_h", "pp-size", "no_buffer", 0.5),
    ],
)
def test_two_ranks_decide_alike_under_pressure(
    tiny_model: Callable[[str], Path], tmp_path: Path, family: str, parallel: str, strategy: str, alpha: float | str
) -> None:
    flags = {**STRATEGIES[strategy], **PRESSURE[strategy], parallel: 2, "chunked-prefill-size": 256}
    config = {"alpha": alpha, "bootstrap_multiplier": 1, "retune_interval": 100, "min_gain": 0}
    flags |= {"radix-eviction-policy-config": config, "enable-metrics": True}
    environment = {**STRICT, **CONSENSUS, RECORD_FOLDER: str(tmp_path)}
    with TinyServer(
        tiny_model(family), backend="marconi", flags=flags, environment=environment, module="recording_server"
    ) as server:
        requests = RandomRequests(SEED)
        served = requests.send(server, REQUESTS)
        while alpha == "auto" and marconi(server)["tuner"]["phase"] == "searching":
            served += requests.send(server, 1)
        check_pools_whole(server)
        counted, tuner = marconi(server)["stats"], marconi(server)["tuner"]
        server.flush()
        # Every rank takes part in this one, so every rank has flushed before.
        server.generate(Tokens(SEED)(10), 1)
        one, other = (path.read_text().rpartition(CLEARED)[0].splitlines() for path in tmp_path.iterdir())
        wrong = mismatches(server, served)
    difference = next((pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]), None)
    assert difference is None, f"seed {SEED}: the ranks' first different decision is {difference}"
    assert len(one) == len(other)
    assert counted["states_evicted"] > REQUESTS / 4 and counted["branch_states_admitted"] > REQUESTS / 20, counted
    assert not wrong, f"seed {SEED}"
    assert alpha != "auto" or (tuner["last_search"] is not None and tuner["failures"] == 0), tuner
    hit_tokens = sum(answer.cached_tokens for _, answer in served)
    print(f"\n{parallel} {strategy}: {len(served)} requests, {len(one)} decisions, {hit_tokens} hit tokens, {counted}")
    if tuner:
        print({key: tuner[key] for key in ("form", "requests", "adoptions", "failures")})


def test_each_replica_keeps_a_cache_of_its_own(tiny_model: Callable[[str], Path]) -> None:
    flags = {**STRATEGIES["no_buffer"], "dp": 2, "enable-metrics": True}
    prompt = Tokens(SEED)(100)
    with TinyServer(tiny_model("falcon_h1"), backend="marconi", flags=flags, environment=STRICT) as server:
        hits = [server.generate([*prompt, last], 2).cached_tokens for last in range(10, 16)]
        replicas = [state["marconi"] for state in server.server_info()["internal_states"]]
        check_pools_whole(server)
    # SGLang sends requests to its replicas in turn: the third that a replica gets hits the shared prefix.
    assert hits == [0, 0, 0, 0, 100, 100]
    assert [replica["stats"]["branch_states_admitted"] for replica in replicas] == [1, 1]
