"""``sglang-marconi latency`` measures the real server."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from sglang_marconi.cli import main
from sglang_marconi.platform.models import make_tiny_model
from sglang_marconi.platform.server import TinyServer
from sglang_marconi.platform.tokenizer import VOCAB_SIZE
from sglang_marconi.sim.latency import load_latency


def test_times_of_a_server_are_measured_and_read_back(tmp_path: Path) -> None:
    model = make_tiny_model("falcon_h1", tmp_path / "model")
    output = tmp_path / "latency.json"
    with TinyServer(model, backend="marconi", flags={"max-total-tokens": 4096}) as server:
        arguments = ["latency", "--url", server.url, "-o", str(output), "--vocabulary", str(VOCAB_SIZE)]
        result = CliRunner().invoke(main, [*arguments, "--lengths", "32,1024,3000,9000", "--repeats", "3"])
    assert result.exit_code == 0, result.output
    assert "ms a token (R2" in result.output
    record = json.loads(output.read_text())
    assert {length for length, _ in record["measured"]} == {32, 1024, 3000}  # 9000 does not fit the server
    times = load_latency(str(output))
    assert 0 < times.prefill.ms[0] < times.prefill.ms[-1]
    assert times.decode_ms > 0
