"""The one configuration of the live cache: every key, its rule and its meaning."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

SOURCE = "--radix-eviction-policy-config"

RecencyForm = Literal["linear", "inverse_age"]
BytesForm = Literal["own", "path"]
CostModel = Literal["model", "paper"]
PromptEnd = Literal["never", "always"]


def _meaning(text: str) -> dict[str, str]:
    return {"meaning": text}


@dataclasses.dataclass(frozen=True)
class MarconiConfig:
    """What an operator can set, as JSON in ``--radix-eviction-policy-config``.

    Each field's ``metadata["meaning"]`` is its documentation; the configuration
    reference is generated from it.

    Raises:
        ValueError: a key is unknown or a value breaks its rule. The message names
            the key, the rule, the value and the flag.
    """

    alpha: float = dataclasses.field(
        default=0.0,
        metadata=_meaning(
            "Weight of FLOP efficiency in S = recency + alpha * efficiency (Marconi, section 4.2). "
            "A number >= 0; 0 evicts the least recently used."
        ),
    )
    recency: RecencyForm = dataclasses.field(
        default="linear",
        metadata=_meaning(
            "Form of the recency term: 'linear' in the logical time of the last use, or 'inverse_age' "
            "(1 / age), which ranks all but the newest nodes almost alike."
        ),
    )
    bytes: BytesForm = dataclasses.field(
        default="own",
        metadata=_meaning(
            "Bytes that FLOP efficiency divides by: 'own' counts what evicting the node gives back, "
            "'path' the state and the KV of the whole prefix."
        ),
    )
    cost: CostModel = dataclasses.field(
        default="model",
        metadata=_meaning(
            "FLOPs and bytes of a prefix: 'model' reads the loaded model's configuration and the pools' "
            "true bytes, 'paper' uses the 7B hybrid of Marconi, table 1."
        ),
    )
    min_branch_gain: int = dataclasses.field(
        default=32,
        metadata=_meaning(
            "Tokens that a checkpoint at a branch point must save over the nearest state to be worth "
            "splitting the prefill. An integer >= 0."
        ),
    )
    admit_prompt_end: PromptEnd = dataclasses.field(
        default="never",
        metadata=_meaning(
            "Whether the state at the end of a prompt stays in the tree: 'never' (the paper's judicious "
            "admission) or 'always' (for replies that the next prompt does not repeat)."
        ),
    )

    def __post_init__(self) -> None:
        _check_alpha(self.alpha)
        object.__setattr__(self, "alpha", float(self.alpha))
        _check_choice("recency", self.recency, RecencyForm)
        _check_choice("bytes", self.bytes, BytesForm)
        _check_choice("cost", self.cost, CostModel)
        _check_choice("admit_prompt_end", self.admit_prompt_end, PromptEnd)
        gain = self.min_branch_gain
        if isinstance(gain, bool) or not isinstance(gain, int) or gain < 0:
            raise ValueError(f"min_branch_gain must be an integer >= 0, got {gain!r} ({SOURCE})")

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any] | None) -> MarconiConfig:
        """The configuration that the flag's JSON object describes; None means all defaults."""
        if mapping is None:
            return cls()
        if not isinstance(mapping, Mapping):
            raise ValueError(f"the configuration must be a JSON object, got {mapping!r} ({SOURCE})")
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = sorted(set(mapping) - set(known))
        if unknown:
            raise ValueError(f"unknown key {unknown[0]!r} in {SOURCE}; the marconi backend knows: {', '.join(known)}")
        return cls(**mapping)


def _check_alpha(alpha: Any) -> None:
    is_number = isinstance(alpha, int | float) and not isinstance(alpha, bool)
    if not is_number or not math.isfinite(alpha) or alpha < 0:
        raise ValueError(f"alpha must be a number >= 0, got {alpha!r} ({SOURCE})")


def _check_choice(key: str, value: Any, form: Any) -> None:
    choices = get_args(form)
    if value not in choices:
        allowed = " or ".join(repr(choice) for choice in choices)
        raise ValueError(f"{key} must be {allowed}, got {value!r} ({SOURCE})")
