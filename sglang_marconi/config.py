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
TuningObjective = Literal["hit_tokens", "flops"]


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

    alpha: float | Literal["auto"] = dataclasses.field(
        default=0.0,
        metadata=_meaning(
            "Weight of FLOP efficiency in S = recency + alpha * efficiency (Marconi, section 4.2). "
            "A number >= 0; 0 evicts the least recently used. 'auto' starts at 0 and finds alpha and the forms "
            "of recency and bytes by replaying recent requests (section 4.3)."
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
    bootstrap_multiplier: float = dataclasses.field(
        default=5.0,
        metadata=_meaning(
            "alpha 'auto': the first window holds so many times the requests before the first eviction, "
            "within 100 and 5000 requests. A number from 1 to 50."
        ),
    )
    retune_interval: int = dataclasses.field(
        default=2000,
        metadata=_meaning(
            "alpha 'auto': requests of the windows that follow, one after the other; a window closes early when "
            "the hit rate falls by a quarter. An integer >= 0; 0 tunes once."
        ),
    )
    min_gain: float = dataclasses.field(
        default=0.02,
        metadata=_meaning(
            "alpha 'auto': by how much of its score another form must beat the present one to be adopted, on "
            "the window and on its later half. A number from 0 to 1."
        ),
    )
    objective: TuningObjective = dataclasses.field(
        default="hit_tokens",
        metadata=_meaning("alpha 'auto': what a window is scored by, 'hit_tokens' or 'flops' saved."),
    )
    tuner_threads: int = dataclasses.field(
        default=2,
        metadata=_meaning("alpha 'auto': native threads of low priority that search. An integer >= 1."),
    )
    tuner_memory_mb: int = dataclasses.field(
        default=256,
        metadata=_meaning(
            "alpha 'auto': MiB of tokens that a window may hold; a full window closes early. An integer >= 1."
        ),
    )

    record_folder: str | None = dataclasses.field(
        default=None,
        metadata=_meaning(
            "Folder to which the server writes a trace of its requests, for the simulator: lengths, times and a keyed "
            "hash of each prefix. The simulator reads the files. A path, or null to write none."
        ),
    )
    record_tokens: bool = dataclasses.field(
        default=False,
        metadata=_meaning("Write the tokens of prompts and replies to the trace, in place of hashes."),
    )
    record_file_mb: int = dataclasses.field(
        default=64, metadata=_meaning("Megabytes after which a trace's next file begins. An integer >= 1.")
    )
    record_files: int = dataclasses.field(
        default=16, metadata=_meaning("Trace files that are kept; the oldest goes first. An integer >= 1.")
    )

    @property
    def is_tuned(self) -> bool:
        """Whether alpha is found while serving."""
        return self.alpha == "auto"

    @property
    def first_alpha(self) -> float:
        """The alpha that serving starts with."""
        return 0.0 if isinstance(self.alpha, str) else self.alpha

    def __post_init__(self) -> None:
        if not self.is_tuned:
            _check_number("alpha", self.alpha, 0, math.inf, 'a number >= 0 or "auto"')
            object.__setattr__(self, "alpha", float(self.alpha))
        _check_number("bootstrap_multiplier", self.bootstrap_multiplier, 1, 50, "a number from 1 to 50")
        _check_number("min_gain", self.min_gain, 0, 1, "a number from 0 to 1")
        _check_choice("objective", self.objective, TuningObjective)
        _check_choice("recency", self.recency, RecencyForm)
        _check_choice("bytes", self.bytes, BytesForm)
        _check_choice("cost", self.cost, CostModel)
        _check_choice("admit_prompt_end", self.admit_prompt_end, PromptEnd)
        _check_integer("min_branch_gain", self.min_branch_gain, 0)
        _check_integer("retune_interval", self.retune_interval, 0)
        _check_integer("tuner_threads", self.tuner_threads, 1)
        _check_integer("tuner_memory_mb", self.tuner_memory_mb, 1)
        if self.record_folder is not None and not (isinstance(self.record_folder, str) and self.record_folder):
            raise ValueError(f"record_folder must be a path or null, got {self.record_folder!r} ({SOURCE})")
        if not isinstance(self.record_tokens, bool):
            raise ValueError(f"record_tokens must be true or false, got {self.record_tokens!r} ({SOURCE})")
        _check_integer("record_file_mb", self.record_file_mb, 1)
        _check_integer("record_files", self.record_files, 1)

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


def _check_number(key: str, value: Any, least: float, most: float, rule: str) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not least <= value <= most:
        raise ValueError(f"{key} must be {rule}, got {value!r} ({SOURCE})")


def _check_integer(key: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{key} must be an integer >= {least}, got {value!r} ({SOURCE})")


def _check_choice(key: str, value: Any, form: Any) -> None:
    choices = get_args(form)
    if value not in choices:
        allowed = " or ".join(repr(choice) for choice in choices)
        raise ValueError(f"{key} must be {allowed}, got {value!r} ({SOURCE})")
