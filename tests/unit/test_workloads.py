"""Generated workloads, and the ``trace`` commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sglang_marconi.cli import main
from sglang_marconi.sim.workloads import REGIMES, WorkloadOptions, generate


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def stats(path: Path) -> dict[str, Any]:
    result = call("trace", "stats", path, "--json")
    assert result.exit_code == 0, result.output
    figures: dict[str, Any] = json.loads(result.stdout)
    return figures


@pytest.mark.parametrize("regime", REGIMES)
def test_workload_is_a_trace_in_order_of_time(tmp_path: Path, regime: str) -> None:
    path = tmp_path / "trace.jsonl.gz"
    assert call("trace", "generate", regime, "--sessions", 12, "-o", path).exit_code == 0
    lines = list(generate(regime, WorkloadOptions(sessions=12)))
    times = [line["ts"] for line in lines]
    assert times == sorted(times)
    assert len({line["session_id"] for line in lines}) == 12
    figures = stats(path)
    assert figures["requests"] == len(lines)
    assert figures["prompt_tokens"]["total"] == sum(line["keep"] + len(line["delta"]) for line in lines)
    assert figures["reply_tokens"]["total"] == sum(len(line["output_tokens"]) for line in lines)


def reuse(tmp_path: Path, regime: str, **options: Any) -> dict[str, float]:
    path = tmp_path / f"{regime}.jsonl"
    with path.open("w") as file:
        for line in generate(regime, WorkloadOptions(sessions=30, **options)):
            file.write(json.dumps(line) + "\n")
    shares: dict[str, float] = stats(path)["reuse"]
    return shares


def test_regimes_differ_in_what_they_say(tmp_path: Path) -> None:
    chat, twice, thinking = (reuse(tmp_path, regime) for regime in ("chat", "twice", "thinking"))
    assert chat["judicious"] > 0.98 * chat["seen"]
    assert twice["judicious"] == 0
    assert twice["seen"] == pytest.approx(0.48, abs=0.03)
    assert thinking["judicious"] < thinking["seen"]
    cut, kept = (reuse(tmp_path, regime)["seen"] for regime in ("agent-cut", "agent"))
    assert cut < kept - 0.1


def test_seed_decides(tmp_path: Path) -> None:
    assert list(generate("chat", WorkloadOptions(sessions=5, seed=3))) == list(
        generate("chat", WorkloadOptions(sessions=5, seed=3))
    )
    assert list(generate("chat", WorkloadOptions(sessions=5, seed=3))) != list(
        generate("chat", WorkloadOptions(sessions=5, seed=4))
    )


def test_impossible_workload_is_refused() -> None:
    with pytest.raises(ValueError, match="regime must be one of chat"):
        list(generate("none", WorkloadOptions()))
    with pytest.raises(ValueError, match="turns must be > 0, got 0"):
        WorkloadOptions(turns=0)


def test_stats_are_shown_as_a_table(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    call("trace", "generate", "chat", "--sessions", 3, "-o", path)
    shown = call("trace", "stats", path).stdout
    assert "prompt tokens seen before" in shown


def test_conversion_of_what_is_no_text_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    call("trace", "generate", "chat", "--sessions", 3, "-o", path)
    result = call("trace", "convert", path, "-o", tmp_path / "out.jsonl")
    assert result.exit_code == 1
    assert "trace.jsonl:1: holds no conversation in text" in result.output
    assert [file.name for file in tmp_path.iterdir()] == ["trace.jsonl"]


def test_text_is_converted_with_a_tokenizer(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "hello": 1, "world": 2}, "[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    text = tmp_path / "chat.json"
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "world"}]
    text.write_text(json.dumps([{"messages": messages}]))
    output = tmp_path / "sessions.jsonl.zst"
    result = call("trace", "convert", text, "--tokenizer", tmp_path, "-o", output)
    assert result.exit_code == 0, result.output
    assert stats(output)["requests"] == 1
    bad = call("trace", "convert", text, "--tokenizer", text, "-o", output)
    assert bad.exit_code == 1
    assert "chat.json is no tokenizer" in bad.output
