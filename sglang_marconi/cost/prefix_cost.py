"""What a cached prefix saves and holds."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class PrefixCost:
    """FLOPs to prefill a prefix of L tokens, ``a L + b L^2``, and the bytes that caching it takes.

    Args:
        linear_flops_per_token: a; projections, MLPs, recurrent layers.
        quadratic_flops_per_token_squared: b; attention scores and their use.
        kv_bytes_per_token: KV of all attention layers.
        state_bytes: one checkpoint, conv and recurrent state of all layers; 0 without such layers.
    """

    linear_flops_per_token: float
    quadratic_flops_per_token_squared: float
    kv_bytes_per_token: int
    state_bytes: int

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if not getattr(self, field.name) >= 0:
                raise ValueError(f"{field.name} must be >= 0, got {getattr(self, field.name)!r}")

    def prefill_flops(self, tokens: int) -> float:
        """FLOPs to prefill ``tokens`` tokens from nothing."""
        return self.linear_flops_per_token * tokens + self.quadratic_flops_per_token_squared * tokens * tokens
