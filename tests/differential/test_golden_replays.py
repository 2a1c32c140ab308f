"""The published replays of Marconi's authors' simulator, bit for bit."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sglang_marconi._core import Trace
from sglang_marconi.sim import ReplayRun, load_model, read_trace, replay

GENERATOR = (
    Path(os.environ.get("MARCONI_SHARED", Path(__file__).resolve().parents[3] / "shared")) / "tools/gen_trace.py"
)
OPTIONS = "--chat-sessions 30 --agent-sessions 8 --agent-turns 15 --collapse 5 --seed 3"


def generate(folder: Path, *more: str) -> Path:
    if not GENERATOR.exists():
        pytest.skip(f"the trace generator is not there: {GENERATOR}")
    path = folder / "tiny.jsonl"
    command = [sys.executable, str(GENERATOR), str(path), *OPTIONS.split(), *more]
    subprocess.run(command, check=True, capture_output=True)
    return path


@pytest.fixture(scope="module")
def golden_trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    path = generate(tmp_path_factory.mktemp("golden"))
    assert hashlib.sha256(path.read_bytes()).hexdigest().startswith("09800de879f69203")
    return read_trace(path)


def hits_of(trace: Trace, policy: str, gigabytes: int, alpha: float) -> str:
    run = ReplayRun(policy, gigabytes * 10**9, load_model("paper-7b"), alpha, "paper-artifact")
    hits = replay(trace, run).native.hit_tokens.tolist()
    return hashlib.sha256(json.dumps(hits).encode()).hexdigest()[:12]


@pytest.mark.parametrize(
    ("policy", "gigabytes", "alpha", "rate", "leaves", "inner", "over", "hits"),
    [
        ("sglang", 2, 0.0, 0.49806, 556, 0, 0, "58edcfbf37de"),
        ("marconi", 2, 0.0, 0.48506, 343, 223, 36, "9da1aa070c7f"),
        ("marconi", 2, 1.0, 0.49287, 479, 110, 92, "f7d236cf4e71"),
        ("marconi", 5, 0.3, 0.67305, 402, 162, 68, "713be3f95e59"),
    ],
)
def test_golden_replay_is_exact(
    golden_trace: Trace,
    policy: str,
    gigabytes: int,
    alpha: float,
    rate: float,
    leaves: int,
    inner: int,
    over: int,
    hits: str,
) -> None:
    run = ReplayRun(policy, gigabytes * 10**9, load_model("paper-7b"), alpha, "paper-artifact")
    summary = replay(golden_trace, run).summary()
    assert round(summary["token_hit_rate"], 5) == rate
    assert (summary["leaf_victims"], summary["inner_victims"]) == (leaves, inner)
    assert summary["requests_over_capacity"] == over
    assert hits_of(golden_trace, policy, gigabytes, alpha) == hits


def test_compact_form_replays_as_the_full_form(tmp_path: Path) -> None:
    compact = read_trace(generate(tmp_path, "--compact"))
    assert hits_of(compact, "marconi", 5, 0.3) == "713be3f95e59"
