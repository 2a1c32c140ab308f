"""``sglang-marconi simulate``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sglang_marconi.cli import main
from sglang_marconi.cli.byte_size import parse_byte_size


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    lines = [
        {"session_id": 0, "turn_id": 0, "ts": 0, "input_tokens": [1, 2], "output_tokens": [3]},
        {"session_id": 0, "turn_id": 1, "ts": 1, "input_tokens": [1, 2, 3, 4], "output_tokens": [5]},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def simulate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)])


def test_json_holds_one_run_per_policy(trace: Path) -> None:
    result = simulate(trace, "--policy", "none,marconi", "--capacity", "5GB", "--json")
    assert result.exit_code == 0, result.output
    none, marconi = json.loads(result.stdout)["runs"]
    assert (none["policy"], none["alpha"], none["token_hit_rate"]) == ("none", None, 0.0)
    assert (marconi["policy"], marconi["alpha"], marconi["capacity_bytes"]) == ("marconi", 0.0, 5 * 10**9)
    assert marconi["requests"] == 2
    assert marconi["token_hit_rate"] == 0.5
    assert marconi["flops_saved"] > 0
    assert "hit_tokens" not in marconi


def test_per_request_adds_lists(trace: Path) -> None:
    arguments = ["--policy", "marconi", "--capacity", "5GB", "--json", "--per-request"]
    for preset in ("default", "paper-artifact"):
        result = simulate(trace, *arguments, "--preset", preset)
        (run,) = json.loads(result.stdout)["runs"]
        assert run["hit_tokens"] == [0, 3]


def test_table_names_the_policies(trace: Path) -> None:
    result = simulate(trace, "--policy", "sglang-native,oracle-alpha,belady", "--capacity", "1GiB")
    assert result.exit_code == 0, result.output
    for text in ("sglang-native", "oracle-alpha", "belady (bound)"):
        assert text in result.stdout


def test_budget_sglang_splits_the_capacity(trace: Path) -> None:
    arguments = ["--policy", "marconi", "--budget", "sglang", "--capacity", "5GB", "--json"]
    (run,) = json.loads(simulate(trace, *arguments).stdout)["runs"]
    assert run["token_hit_rate"] == 2 / 6  # the reply's last token has no KV yet
    assert 4.9e9 < run["capacity_bytes"] < 5e9


def test_budget_sglang_takes_pool_sizes(trace: Path) -> None:
    sizes = ["--max-total-tokens", "100", "--max-mamba-cache-size", "4"]
    result = simulate(trace, "--policy", "marconi", "--budget", "sglang", *sizes, "--json")
    (run,) = json.loads(result.stdout)["runs"]
    assert run["capacity_bytes"] == 100 * 65_536 + 4 * 26_787_840


@pytest.mark.parametrize("budget", ["bytes", "sglang"])
def test_missing_capacity_is_refused(trace: Path, budget: str) -> None:
    result = simulate(trace, "--policy", "marconi", "--budget", budget)
    assert result.exit_code == 1
    assert "--capacity" in result.output


def test_model_is_read_from_its_config(trace: Path, tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    for model in (tmp_path, tmp_path / "config.json"):
        result = simulate(trace, "--policy", "marconi", "--capacity", "1MB", "--model", model, "--json")
        assert json.loads(result.stdout)["runs"][0]["token_hit_rate"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "best", "--capacity", "1GB"], "must be of none, vllm"),
        (["--policy", "marconi", "--capacity", "lots"], "a size must be a number"),
        (["--policy", "marconi", "--capacity", "1GB", "--alpha", "-1"], 'must be "auto" or a number >= 0'),
        (
            ["--policy", "marconi", "--capacity", "1GB", "--model", "nowhere.json"],
            "model must be paper-7b, falcon-h1-7b",
        ),
        (["--policy", "marconi", "--capacity", "1GB", "--per-request"], "--per-request needs --json"),
        (["--policy", "belady", "--capacity", "1GB", "--preset", "paper-artifact"], "with the preset paper-artifact"),
    ],
)
def test_bad_option_is_explained(trace: Path, arguments: list[str], message: str) -> None:
    result = simulate(trace, *arguments)
    assert result.exit_code != 0
    assert message in result.stderr


def test_bad_line_is_named_without_a_traceback(trace: Path) -> None:
    with trace.open("a") as file:
        file.write("{}\n")
    result = simulate(trace, "--policy", "marconi", "--capacity", "1GB")
    assert result.exit_code == 1
    assert f"{trace}:3: the key 'session_id' is missing" in result.stderr


def test_module_runs_as_a_command(trace: Path) -> None:
    command = [sys.executable, "-m", "sglang_marconi.cli", "simulate", str(trace), "--policy", "none"]
    output = subprocess.run([*command, "--capacity", "1", "--json"], capture_output=True, text=True, check=True)
    assert json.loads(output.stdout)["runs"][0]["requests"] == 2
    assert output.stderr == ""


@pytest.mark.parametrize(
    ("text", "size"),
    [("7", 7), ("5GB", 5 * 10**9), ("1.5 kb", 1500), ("2GiB", 2 * 2**30), ("3M", 3 * 10**6), ("1e9", 10**9)],
)
def test_byte_sizes_are_parsed(text: str, size: int) -> None:
    assert parse_byte_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1XB", "1e30", "nan"])
def test_bad_byte_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a size must be"):
        parse_byte_size(text)
