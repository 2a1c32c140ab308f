"""``sglang-marconi size`` and ``models``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sglang_marconi.cli import main

KV, STATE = 2 * 2 * 16 * 2 * 1, 3 * 8 * 16 * 16 * 4  # bytes of MODEL: a token's KV, one recurrent state


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Three Mamba-2 layers without a convolution and one of attention: sizes that one can reckon with."""
    config = {
        "model_type": "nemotron_h",
        "hidden_size": 64,
        "hybrid_override_pattern": "MMM*",
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "mamba_num_heads": 8,
        "mamba_head_dim": 16,
        "n_groups": 1,
        "ssm_state_size": 16,
        "conv_kernel": 1,
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return path


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def sessions(path: Path, count: int, tokens: int) -> Path:
    """Conversations of two turns, all first turns before all second ones."""
    lines = []
    for session in range(count):
        first = [10 * session + i % 10 for i in range(tokens)]
        lines.append(
            {
                "session": session,
                "tokens": first * 2 + [1],
                "turns": [[tokens, tokens + 4], [2 * tokens, 2 * tokens + 1]],
            }
        )
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def sized(*arguments: object) -> dict[str, Any]:
    result = call("size", *arguments, "--json")
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_full_state_pool_beside_idle_kv_is_reported_with_the_split_that_fills_both(model: Path, tmp_path: Path) -> None:
    # sglang#32763: short conversations need states, the default split holds half of them.
    trace = sessions(tmp_path / "short.jsonl", count=40, tokens=40)
    answer = sized(trace, "--model", model, "--memory", 42 * STATE + 40 * 90 * KV, "--policy", "marconi")
    assert (answer["kv_bytes_per_token"], answer["state_bytes"]) == (KV, STATE)
    (policy,) = answer["policies"]
    default, best = policy["default"], policy["best"]
    assert default["too_small"] == "states"
    assert default["states_used"] > 0.9 > 0.5 > default["kv_used"]
    assert best["mamba_full_memory_ratio"] > 0.9
    assert best["token_hit_rate"] > default["token_hit_rate"]
    assert f"--mamba-full-memory-ratio {best['mamba_full_memory_ratio']:g}" in policy["flags"]


def test_full_kv_pool_beside_idle_states_is_reported(model: Path, tmp_path: Path) -> None:
    trace = sessions(tmp_path / "long.jsonl", count=8, tokens=2000)
    answer = sized(trace, "--model", model, "--memory", 10 * STATE + 8 * 4100 * KV, "--policy", "marconi")
    (policy,) = answer["policies"]
    assert policy["default"]["too_small"] == "KV"
    assert policy["best"]["mamba_full_memory_ratio"] < 0.9


def test_best_split_is_the_one_that_simulate_gets_from_the_flag(model: Path, tmp_path: Path) -> None:
    trace = sessions(tmp_path / "short.jsonl", count=40, tokens=40)
    memory = 42 * STATE + 40 * 90 * KV
    best = sized(trace, "--model", model, "--memory", memory, "--policy", "marconi")["policies"][0]["best"]
    flags = ["--mamba-full-memory-ratio", best["mamba_full_memory_ratio"], "--budget", "sglang", "--model", model]
    result = call("simulate", trace, "--policy", "marconi", "--capacity", memory, *flags, "--json")
    assert json.loads(result.stdout)["runs"][0]["token_hit_rate"] == best["token_hit_rate"]


def test_table_names_the_best_split_and_the_flags(model: Path, tmp_path: Path) -> None:
    trace = sessions(tmp_path / "short.jsonl", count=40, tokens=40)
    result = call("size", trace, "--model", model, "--memory", 42 * STATE + 40 * 90 * KV)
    assert result.exit_code == 0
    assert "(best)" in result.stdout
    assert "--radix-cache-backend marconi" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--memory", "1kB"], "give more memory"),
        (["--memory", "1MB", "--tp-size", "3"], "tensor parallel size 3 does not divide"),
        (["--memory", "1MB", "--model", "paper-7b", "--tp-size", "2"], "paper-7b has fixed types on one GPU"),
        (["--memory", "none"], "a size must be a number"),
    ],
)
def test_memory_or_model_that_cannot_be_is_explained(
    model: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    trace = sessions(tmp_path / "short.jsonl", count=2, tokens=40)
    result = call("size", trace, "--model", model, *arguments)
    assert result.exit_code != 0
    assert message in result.output


def test_models_are_listed_with_their_sources() -> None:
    records = {record["model"]: record for record in json.loads(call("models", "--json").stdout)["models"]}
    # Qwen3-Next: 12 attention layers of 2 x 256 KV elements, twice, in two bytes.
    assert records["qwen3-next-80b-a3b"]["kv_bytes_per_token"] == 12 * 2 * 2 * 256 * 2
    # About two FLOPs for each of the 3, 8, 9, 12 billion weights that a token activates.
    for name, billions in (
        ("qwen3-next-80b-a3b", 3),
        ("nemotron-h-8b", 8),
        ("granite-4.0-h-small", 9),
        ("jamba-mini", 12),
    ):
        assert records[name]["flops_per_token"] == pytest.approx(2e9 * billions, rel=0.15)
    assert all(record["source"] for record in records.values())


def test_ranks_and_types_change_the_bytes(model: Path) -> None:
    def of(*options: object) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(call("models", model, *options, "--json").stdout)["models"][0]
        return record

    assert of("--tp-size", 2)["kv_bytes_per_token"] == KV // 2
    assert of("--tp-size", 4)["kv_bytes_per_token"] == KV // 2  # two KV heads: each is on two ranks
    assert of("--tp-size", 4)["state_bytes"] == STATE // 4
    assert of("--kv-cache-dtype", "fp8_e4m3")["kv_bytes_per_token"] == KV // 2
    assert of("--mamba-ssm-dtype", "bfloat16")["state_bytes"] == STATE // 2


def test_sample_comes_with_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = sized("sample", "--model", "qwen3-next-80b-a3b", "--memory", "2GB")
    assert [policy["policy"] for policy in answer["policies"]] == ["sglang", "marconi"]
    assert all(0 < policy["best"]["token_hit_rate"] < 1 for policy in answer["policies"])
