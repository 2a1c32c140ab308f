"""FLOPs and bytes of a prefix."""

from __future__ import annotations

import pytest

from sglang_marconi.cost import PAPER_7B, Bytes, PrefixCost, cost_from_config, paper_cost


def test_paper_model_has_the_published_bytes() -> None:
    assert PAPER_7B.state_bytes == 26_787_840
    assert PAPER_7B.kv_bytes_per_token == 65_536


def test_paper_flops_follow_table_1() -> None:
    d, n, tokens = 64, 16, 10
    cost = paper_cost(attention_layers=1, ssm_layers=2, mlp_layers=3, hidden=d, state_size=n)
    attention = 8 * tokens * d**2 + 4 * tokens**2 * d
    ssm = 12 * tokens * d**2 + 16 * tokens * d * n + 10 * tokens * d
    assert cost.prefill_flops(tokens) == attention + 2 * ssm + 3 * 16 * tokens * d**2


def test_llama_counts_two_flops_per_weight_and_the_scores() -> None:
    hidden, heads, kv_heads, head_dim, intermediate = 64, 4, 2, 16, 128
    cost = cost_from_config(
        {
            "model_type": "llama",
            "hidden_size": hidden,
            "num_hidden_layers": 3,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "intermediate_size": intermediate,
        }
    )
    weights = hidden * head_dim * (2 * heads + 2 * kv_heads) + 3 * hidden * intermediate
    assert cost == PrefixCost(3 * 2 * weights, 3 * 4 * heads * head_dim, 3 * 2 * kv_heads * head_dim * 2, 0)


def test_active_experts_count_and_idle_ones_do_not() -> None:
    config = {
        "model_type": "qwen3_moe",
        "hidden_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 1,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
    }
    more = cost_from_config({**config, "num_experts": 16})
    few = cost_from_config(config)
    assert more.linear_flops_per_token - few.linear_flops_per_token == 2 * 64 * 8  # the router alone


def test_multi_modal_config_is_read_in_its_text_config() -> None:
    text = {
        "model_type": "qwen3_5_text",
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 128,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_conv_kernel_dim": 4,
        "full_attention_interval": 4,
    }
    cost = cost_from_config({"model_type": "qwen3_5", "text_config": text}, Bytes(kv=4, conv=4, state=4))
    assert cost.kv_bytes_per_token == 2 * 2 * 16 * 4
    assert cost.state_bytes == 3 * 4 * ((2 * 32 + 64) * 3 + 4 * 16 * 16)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "unheard_of"}, "no FLOP formulas for model_type 'unheard_of'; known: bailing_hybrid"),
        ({"model_type": "llama", "hidden_size": 64}, "'llama' lacks the key 'num_attention_heads'"),
    ],
)
def test_unknown_model_or_missing_key_is_named(config: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cost_from_config(config)


def test_negative_cost_is_refused() -> None:
    with pytest.raises(ValueError, match="state_bytes must be >= 0, got -1"):
        PrefixCost(1.0, 1.0, 1, -1)
