"""A short soak; ``scripts/soak.py`` runs it for as long as one likes."""

from __future__ import annotations

import os

import pytest
from conftest import ServerFactory, marconi
from soak import MEMORY, Soak

SEED = int(os.environ.get("MARCONI_TEST_SEED", "3"))
ROUNDS = int(os.environ.get("MARCONI_TEST_ROUNDS", "6"))


@pytest.mark.parametrize("strategy", sorted(MEMORY))
def test_random_load_gets_exact_answers_and_loses_no_slot(serve: ServerFactory, strategy: str) -> None:
    config = {"alpha": "auto", "bootstrap_multiplier": 1, "retune_interval": 100}
    server = serve(strategy=strategy, flags={**MEMORY[strategy], "radix-eviction-policy-config": config})
    soak = Soak(server, SEED)
    for _ in range(ROUNDS):
        soak.round()
    print(f"\n{strategy}, seed {SEED}: {soak.counts}")
    assert not soak.counts.mismatches, f"seed {SEED}: {soak.counts.mismatches}"
    assert soak.counts.aborted and soak.counts.refused and soak.counts.cached_tokens, soak.counts
    assert marconi(server)["stats"]["states_evicted"] > 0
