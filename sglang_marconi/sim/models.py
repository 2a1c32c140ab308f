"""Cost models by name."""

from __future__ import annotations

import json
from pathlib import Path

from sglang_marconi.cost import PAPER_7B_LAYERWISE, LayerwiseCost, PrefixCost, cost_from_config

Model = PrefixCost | LayerwiseCost

NAMED_MODELS: dict[str, Model] = {"paper-7b": PAPER_7B_LAYERWISE}


def total_cost(model: Model) -> PrefixCost:
    """The cost of all layers together."""
    return model.total if isinstance(model, LayerwiseCost) else model


def load_model(name: str) -> Model:
    """The cost model of ``paper-7b`` or of a Hugging Face ``config.json``.

    Args:
        name: a name of ``NAMED_MODELS``, or the path of a config file or of the folder that holds it.

    Raises:
        ValueError: neither a name nor a readable config of a known family.
    """
    if name in NAMED_MODELS:
        return NAMED_MODELS[name]
    path = Path(name)
    if path.is_dir():
        path = path / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(
            f"model must be {', '.join(NAMED_MODELS)} or a config.json, got {name!r} ({error.strerror})"
        ) from error
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(config).__name__}")
    return cost_from_config(config)
