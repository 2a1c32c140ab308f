"""Cost models by name."""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
from pathlib import Path
from typing import Any

from sglang_marconi.cost import PAPER_7B_LAYERWISE, LayerwiseCost, PrefixCost, cost_from_config, element_bytes

Model = PrefixCost | LayerwiseCost

PAPER_MODEL = "paper-7b"

_PRESETS = importlib.resources.files("sglang_marconi") / "data" / "models"


def model_presets() -> dict[str, str]:
    """Names that `load_model` knows -> where their sizes come from."""
    named = {PAPER_MODEL: "Marconi, section 5.1: 4 attention, 24 SSM, 28 MLP layers"}
    files = sorted((file for file in _PRESETS.iterdir() if file.name.endswith(".json")), key=lambda file: file.name)
    return named | {file.name.removesuffix(".json"): json.loads(file.read_text())["source"] for file in files}


def total_cost(model: Model) -> PrefixCost:
    """The cost of all layers together."""
    return model.total if isinstance(model, LayerwiseCost) else model


def load_model(name: str, *, kv_bytes: int | None = None, state_bytes: int | None = None, ranks: int = 1) -> Model:
    """The cost model of a preset or of a Hugging Face ``config.json``.

    Args:
        name: a name of `model_presets`, or the path of a config file or of the folder that holds it.
        kv_bytes: of one element of KV, instead of the model's own.
        state_bytes: of one element of the recurrent state, likewise.
        ranks: tensor parallel size; bytes are those of one rank.

    Raises:
        ValueError: neither a name nor a readable config of a known family, or the rest does not go with the model.
    """
    given = {"kv": kv_bytes, "state": state_bytes, "ranks": ranks}
    if name == PAPER_MODEL:
        if given != {"kv": None, "state": None, "ranks": 1}:
            raise ValueError(f"{PAPER_MODEL} has fixed types on one GPU; take another --model to change them")
        return PAPER_7B_LAYERWISE
    config = _read_config(name)
    size = dataclasses.replace(element_bytes(config), **{key: value for key, value in given.items() if value})
    return cost_from_config(config, size)


def _read_config(name: str) -> dict[str, Any]:
    preset = _PRESETS / f"{name}.json"
    path = Path(name)
    if path.is_dir():
        path = path / "config.json"
    try:
        text = preset.read_text() if name in model_presets() else path.read_text(encoding="utf-8")
        config = json.loads(text)
    except OSError as error:
        raise ValueError(
            f"model must be {', '.join(model_presets())} or a config.json, got {name!r} ({error.strerror})"
        ) from error
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(config).__name__}")
    return config
