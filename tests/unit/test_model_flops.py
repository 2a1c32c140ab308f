"""FLOPs and bytes of whole models against torch's own counter and against SGLang's own formulas."""

from __future__ import annotations

from typing import Any

import pytest

from sglang_marconi.cost import Bytes, cost_from_config

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SMALL: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MAMBA2 = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16, "mamba_n_groups": 1}
TOKENS = 64


def tiny(family: str) -> tuple[Any, Any]:
    """A model class and its configuration."""
    from sglang_marconi.platform.models import FAMILIES

    if family in FAMILIES:
        return FAMILIES[family]()
    if family == "jamba":
        config = transformers.JambaConfig(
            **SMALL,
            num_hidden_layers=8,
            attn_layer_period=4,
            attn_layer_offset=2,
            num_experts=4,
            num_experts_per_tok=2,
            mamba_d_state=16,
            use_mamba_kernels=False,
        )
        return transformers.JambaForCausalLM, config
    if family == "bamba":
        config = transformers.BambaConfig(**SMALL, **MAMBA2, num_hidden_layers=3, attn_layer_indices=[1])
        return transformers.BambaForCausalLM, config
    if family == "kimi_linear":
        config = transformers.AutoConfig.for_model(
            "kimi_linear",
            **SMALL | {"num_key_value_heads": 4},
            num_hidden_layers=3,
            layer_types=["linear_attention", "full_attention", "linear_attention"],
            mlp_layer_types=["dense", "sparse", "sparse"],
            first_k_dense_replace=1,
            moe_intermediate_size=32,
            num_experts=4,
            num_experts_per_token=2,
            kv_lora_rank=32,
            q_lora_rank=None,
            qk_nope_head_dim=16,
            qk_rope_head_dim=8,
            v_head_dim=16,
            linear_num_heads=4,
            linear_head_dim=16,
        )
        return transformers.AutoModelForCausalLM, config
    assert family == "zamba2"
    config = transformers.Zamba2Config(
        **SMALL | {"num_key_value_heads": 4},
        num_hidden_layers=6,
        n_mamba_heads=8,
        mamba_d_state=16,
        mamba_headdim=16,
        layers_block_type=["mamba", "hybrid", "mamba", "mamba", "hybrid", "mamba"],
        hybrid_layer_ids=[1, 4],
        num_mem_blocks=1,
        adapter_rank=8,
        use_mamba_kernels=False,
    )
    return transformers.Zamba2ForCausalLM, config


def mamba2_scan(inner: int = 128, state: int = 16, groups: int = 1) -> int:
    return 8 * inner * state + 5 * inner + 2 * 4 * (inner + 2 * groups * state)


# Per token: what is no matrix product, the recurrences and convolutions.
SCAN_FLOPS = {
    "llama": 0,
    "falcon_h1": 3 * mamba2_scan(),
    "granite4": 2 * mamba2_scan(),
    "nemotron_h": 2 * mamba2_scan(groups=8),
    "bamba": 2 * mamba2_scan(),
    "zamba2": 6 * mamba2_scan(),
    "jamba": 6 * (8 * 128 * 16 + 5 * 128 + 2 * 4 * 128),
    "qwen3_next": 3 * (7 * 4 * 16 * 16 + 2 * 4 * (2 * 32 + 64)),
    "qwen3_5": 3 * (7 * 4 * 16 * 16 + 2 * 4 * (2 * 32 + 64)),
    "kimi_linear": 2 * (7 * 4 * 16 * 16 + 2 * 4 * 3 * 64),
    "lfm2": 2 * 2 * 3 * 64,
}


@pytest.mark.parametrize("family", SCAN_FLOPS)
def test_matrix_products_are_those_that_torch_counts(family: str) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    model_class, config = tiny(family)
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    make = model_class if model_class is not transformers.AutoModelForCausalLM else model_class.from_config
    model = make(config).eval().model
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.randint(3, 500, (1, TOKENS)), use_cache=False)
    counts = counter.get_flop_counts()
    products = sum(flops for op, flops in counts["Global"].items() if str(op) in ("aten.mm", "aten.addmm"))
    scores = sum(
        flops
        for name, ops in counts.items()
        if name.endswith(("self_attn", "mixer")) and not any(str(op) == "aten.convolution" for op in ops)
        for op, flops in ops.items()
        if str(op) == "aten.bmm"
    )
    cost = cost_from_config(config.to_dict())
    assert (cost.linear_flops_per_token - SCAN_FLOPS[family]) * TOKENS == products
    assert cost.quadratic_flops_per_token_squared * TOKENS**2 == scores


PUBLISHED_SHAPES = {
    "falcon_h1": {"mamba_n_heads": 24, "mamba_d_ssm": 1536, "mamba_d_head": 64, "mamba_d_state": 256},
    "granite4": {"mamba_n_heads": 16, "mamba_d_head": 8, "mamba_n_groups": 1},
    "qwen3_next": {"linear_num_key_heads": 16, "linear_num_value_heads": 32},
    "lfm2": {},
}


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("family", PUBLISHED_SHAPES)
def test_state_bytes_are_those_of_sglangs_pools(family: str, ranks: int) -> None:
    mamba_utils = pytest.importorskip("sglang.srt.configs.mamba_utils")
    _, config = tiny(family)
    config.update(PUBLISHED_SHAPES[family])
    cost = cost_from_config(config.to_dict(), Bytes(ranks=ranks))
    c = config
    if family == "qwen3_next":
        values = c.linear_num_value_heads * c.linear_value_head_dim
        sizes = values, c.linear_num_key_heads, c.linear_num_value_heads, c.linear_value_head_dim
        sizes += c.linear_key_head_dim, c.linear_conv_kernel_dim
        layers = 3
    elif family == "lfm2":
        sizes, layers = (c.hidden_size, 1, ranks, c.hidden_size, 0, c.conv_L_cache), 2
    else:
        inner = c.mamba_d_ssm if family == "falcon_h1" else c.mamba_expand * c.hidden_size
        sizes = inner, c.mamba_n_groups, c.mamba_n_heads, c.mamba_d_head, c.mamba_d_state, c.mamba_d_conv
        layers = 3 if family == "falcon_h1" else 2
    names = "intermediate_size", "n_groups", "num_heads", "head_dim", "state_size", "conv_kernel"
    shape = mamba_utils.Mamba2StateShape.create(tp_world_size=ranks, **dict(zip(names, sizes, strict=True)))
    assert cost.state_bytes == mamba_utils.Mamba2CacheParams(shape=shape, layers=[*range(layers)]).mamba_cache_per_req


def test_kimi_state_bytes_are_those_of_sglangs_pools() -> None:
    mamba_utils = pytest.importorskip("sglang.srt.configs.mamba_utils")
    _, config = tiny("kimi_linear")
    shape = mamba_utils.KimiLinearStateShape.create(tp_world_size=2, num_heads=4, head_dim=16, conv_kernel_size=4)
    params = mamba_utils.KimiLinearCacheParams(shape=shape, layers=[0, 2])
    assert cost_from_config(config.to_dict(), Bytes(ranks=2)).state_bytes == params.mamba_cache_per_req
