"""Prefill times, the server model, and what ``simulate --latency`` and ``sweep`` print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from sglang_marconi._core import TokenTraceBuilder, Trace
from sglang_marconi.cli import main
from sglang_marconi.sim.latency import JAMBA_MINI, PrefillTime, ServerModel, fit_prefill_time, load_latency

LINE = PrefillTime(tokens=(0, 1000), ms=(10.0, 110.0))


def trace_of(*requests: tuple[float, int, int]) -> Trace:
    """Requests of (arrival s, prompt tokens, reply tokens), nothing shared."""
    builder = TokenTraceBuilder()
    for number, (arrival_s, prompt, reply) in enumerate(requests):
        tokens = np.arange(prompt + reply, dtype=np.uint32) + 10_000 * number
        builder.add(tokens[:prompt], tokens[prompt:], arrival_s)
    return builder.build()


def no_hits(trace: Trace) -> Any:
    return np.zeros(len(trace), np.int64)


def test_published_jamba_times() -> None:
    assert JAMBA_MINI(np.array([100, 500, 4000, 64_000])).tolist() == pytest.approx(
        [44.29, 44.29, 229.65, 17.81 + 0.05296 * 64_000]
    )


def test_requests_queue_for_the_prefill() -> None:
    trace = trace_of((0.0, 900, 0), (0.05, 900, 0), (9.0, 900, 0))
    times = ServerModel(LINE, decode_ms=0.0).serve(trace, no_hits(trace))
    assert times.prefill_ms.tolist() == [100.0, 100.0, 100.0]
    assert times.ttft_ms.tolist() == pytest.approx([100.0, 150.0, 100.0])
    assert times.duration_s == pytest.approx(9.1)


def test_hits_shorten_prefills() -> None:
    trace = trace_of((0.0, 900, 0))
    assert ServerModel(LINE).serve(trace, np.array([500])).ttft_ms.tolist() == [50.0]


def test_chunks_make_way_for_decodes_and_running_requests_are_limited() -> None:
    trace = trace_of((0.0, 100, 1000), (0.1, 900, 0))
    server = ServerModel(LINE, decode_ms=10.0, chunked_prefill_size=300)
    assert server.serve(trace, no_hits(trace)).ttft_ms[1] == pytest.approx(100 + 3 * 10)
    alone = ServerModel(LINE, decode_ms=10.0, max_running_requests=1)
    assert alone.serve(trace, no_hits(trace)).ttft_ms[1] > 9000


def test_fit_gives_back_the_line_and_its_error() -> None:
    lengths = [100, 100, 500, 500, 1000, 1000]
    table, quality = fit_prefill_time(lengths, [10 + 0.1 * length for length in lengths])
    assert quality["intercept_ms"] == pytest.approx(10)
    assert quality["ms_per_token"] == pytest.approx(0.1)
    assert quality["r2"] == pytest.approx(1)
    assert quality["p95_error"] == pytest.approx(0)
    assert table(np.array([750, 2000])).tolist() == pytest.approx([85, 210])
    with pytest.raises(ValueError, match="two different lengths"):
        fit_prefill_time([5, 5], [1.0, 2.0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "the key 'prefill' is missing"),
        ('{"prefill": {"tokens": [1, 1], "ms": [1, 2]}}', "must have rising tokens"),
        ("[", "no table of times"),
        (None, "latency must be jamba-mini or a file of times"),
    ],
)
def test_bad_latency_file_is_explained(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "latency.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=message):
        load_latency(str(path))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jsonl"
    made = CliRunner().invoke(main, ["trace", "generate", "chat", "--sessions", "20", "-o", str(path)])
    assert made.exit_code == 0, made.output
    return path


def test_simulate_prints_times(trace: Path) -> None:
    arguments = ["simulate", str(trace), "--policy", "none,marconi", "--capacity", "20GB", "--latency", "jamba-mini"]
    assert "TTFT P50 ms" in CliRunner().invoke(main, arguments).stdout
    none, marconi = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)["runs"]
    assert marconi["latency"]["ttft_ms"]["p95"] < none["latency"]["ttft_ms"]["p95"]
    assert marconi["latency"]["requests_per_second"] >= none["latency"]["requests_per_second"]


def test_sweep_has_a_run_for_each_size_policy_and_alpha(trace: Path) -> None:
    arguments = ["sweep", str(trace), "--policy", "sglang,marconi", "--capacity", "500MB,5GB", "--alpha", "0,1"]
    runs = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)["runs"]
    assert [(run["policy"], run["alpha"], run["capacity_bytes"]) for run in runs] == [
        (policy, alpha, capacity)
        for capacity in (500_000_000, 5_000_000_000)
        for policy, alpha in (("sglang", None), ("marconi", 0.0), ("marconi", 1.0))
    ]
    table = CliRunner().invoke(main, arguments).stdout
    assert "0.5 GB" in table
    assert "marconi, alpha 1 " in table


def test_size_list_is_checked(trace: Path) -> None:
    result = CliRunner().invoke(main, ["sweep", str(trace), "--policy", "marconi", "--capacity", "5GB,much"])
    assert result.exit_code == 2
    assert "a size must be a number with a unit" in result.output
