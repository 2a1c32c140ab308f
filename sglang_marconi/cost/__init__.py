"""FLOPs and bytes of a prefix."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class PrefixCost:
    linear_flops_per_token: float
    quadratic_flops_per_token_squared: float
    kv_bytes_per_token: int
    state_bytes: int

    def prefill_flops(self, tokens: int) -> float:
        return self.linear_flops_per_token * tokens + self.quadratic_flops_per_token_squared * tokens**2


PAPER_7B = PrefixCost(1.0, 1.0, 65536, 26787840)


def cost_from_config(config):
    return PrefixCost(1.0, 1.0, 1, 1)
