"""The native simulator against plain-Python specifications, request by request, on random traces."""

from __future__ import annotations

import random

import pytest
from artifact_reference import ArtifactReference
from marconi_reference import MarconiReference, Outcome
from random_traces import random_requests, trace_of

from sglang_marconi.cost import LayerwiseCost, PrefixCost
from sglang_marconi.sim import ReplayRun, replay

COST = PrefixCost(3.0, 0.5, 2, 7)
BY_LAYER = LayerwiseCost(PrefixCost(50.0, 6.0, 2, 7), 11.0, 3.0, 2.0, 3, 5.0, 6)
COLUMNS = (
    "hit_tokens",
    "never_seen_tokens",
    "not_admitted_tokens",
    "evicted_tokens",
    "kv_bytes",
    "state_bytes",
    "leaf_victims",
    "inner_victims",
)


@pytest.mark.parametrize("seed", range(300))
def test_marconi_decides_as_its_specification(seed: int) -> None:
    rng = random.Random(seed)
    requests = random_requests(rng, 40, 16, rng.choice([2, 3, 8]))
    run = ReplayRun(
        "marconi",
        rng.choice([30, 60, 120, 250]),
        COST if rng.random() < 0.9 else PrefixCost(1.0, 0.0, 3, 0),
        rng.choice([0.0, 0.1, 0.5, 1.0, 3.0, 1e6]),
        recency=rng.choice(["linear", "inverse_age"]),
        bytes=rng.choice(["own", "path"]),
        min_branch_gain_tokens=rng.choice([0, 1, 3]),
    )
    assert isinstance(run.model, PrefixCost) and isinstance(run.alpha, float)
    reference = MarconiReference(
        run.capacity_bytes, run.model, run.alpha, run.recency, run.bytes, run.min_branch_gain_tokens
    )
    native = replay(trace_of(requests), run, threads=1).native
    columns = zip(*(getattr(native, name).tolist() for name in COLUMNS), strict=True)
    for number, ((prompt, reply), values) in enumerate(zip(requests, columns, strict=True)):
        assert Outcome(*values) == reference.serve(prompt, reply), f"seed {seed}, request {number}, {run}"


@pytest.mark.parametrize("seed", range(200))
def test_paper_artifact_decides_as_its_description(seed: int) -> None:
    rng = random.Random(seed)
    requests = random_requests(rng, 40, 16, rng.choice([2, 3, 8]))
    alpha = rng.choice([None, 0.0, 0.1, 0.7, 1.0, 2.0])
    capacity = rng.choice([5, 30, 60, 120, 250])
    reference = ArtifactReference(capacity, alpha, BY_LAYER)
    policy = "sglang" if alpha is None else "marconi"
    run = ReplayRun(policy, capacity, BY_LAYER, alpha or 0.0, "paper-artifact")
    native = replay(trace_of(requests), run, threads=1).native
    held = (native.kv_bytes + native.state_bytes).tolist()
    for number, (prompt, reply) in enumerate(requests):
        where = f"seed {seed}, request {number}, {run}"
        assert native.hit_tokens[number] == reference.serve(prompt, reply), where
        assert held[number] == reference.held_bytes(), where
    assert native.leaf_victims.sum() == reference.leaf_victims
    assert native.inner_victims.sum() == reference.inner_victims
