"""The configuration channel: every key validated, unknown ones refused."""

from __future__ import annotations

import dataclasses

import pytest

from sglang_marconi.config import MarconiConfig


def test_no_configuration_means_defaults() -> None:
    assert MarconiConfig.from_mapping(None) == MarconiConfig() == MarconiConfig.from_mapping({})


def test_every_key_is_documented() -> None:
    for field in dataclasses.fields(MarconiConfig):
        assert field.metadata["meaning"].endswith(".")


def test_keys_are_taken_over() -> None:
    config = MarconiConfig.from_mapping({"alpha": 1, "bytes": "path", "min_branch_gain": 0})
    assert (config.alpha, config.bytes, config.min_branch_gain) == (1.0, "path", 0)


def test_unknown_key_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown key 'alfa'.*knows: alpha, recency"):
        MarconiConfig.from_mapping({"alfa": 1})


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"alpha": "fast"}, "alpha must be a number >= 0 or \"auto\", got 'fast'"),
        ({"alpha": -1}, 'alpha must be a number >= 0 or "auto", got -1'),
        ({"alpha": float("nan")}, 'alpha must be a number >= 0 or "auto", got nan'),
        ({"alpha": float("inf")}, 'alpha must be a number >= 0 or "auto", got inf'),
        ({"alpha": True}, 'alpha must be a number >= 0 or "auto", got True'),
        ({"recency": "square"}, "recency must be 'linear' or 'inverse_age', got 'square'"),
        ({"bytes": 3}, "bytes must be 'own' or 'path', got 3"),
        ({"cost": "guess"}, "cost must be 'model' or 'paper', got 'guess'"),
        ({"admit_prompt_end": "yes"}, "admit_prompt_end must be 'never' or 'always', got 'yes'"),
        ({"min_branch_gain": 1.5}, "min_branch_gain must be an integer >= 0, got 1.5"),
        ({"min_branch_gain": -1}, "min_branch_gain must be an integer >= 0, got -1"),
    ],
)
def test_bad_value_names_key_rule_value_and_flag(mapping: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=r"--radix-eviction-policy-config") as error:
        MarconiConfig.from_mapping(mapping)
    assert message in str(error.value)


def test_a_list_is_not_a_configuration() -> None:
    with pytest.raises(ValueError, match="must be a JSON object"):
        MarconiConfig.from_mapping([1])  # type: ignore[arg-type]
