"""FLOPs and bytes of a real model, from its Hugging Face ``config.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sglang_marconi.cost.layers import (
    Bytes,
    LayerCost,
    attention,
    gated_delta_net,
    mamba2,
    mlp,
    short_conv,
)
from sglang_marconi.cost.prefix_cost import PrefixCost

Config = Mapping[str, Any]


def cost_from_config(config: Config, size: Bytes | None = None) -> PrefixCost:
    """The cost model of a hybrid or plain transformer.

    Args:
        config: the parsed ``config.json``; a multi-modal one is read in its ``text_config``.
        size: bytes per element; half-precision KV and conv state, float32 recurrent state by default.

    Raises:
        ValueError: the model type is not known, or a key that its formulas need is missing.
    """
    text = config.get("text_config") or config
    model_type = str(text.get("model_type", config.get("model_type", "")))
    layers_of = FAMILIES.get(model_type.removesuffix("_text"))
    if layers_of is None:
        raise ValueError(f"no FLOP formulas for model_type {model_type!r}; known: {', '.join(sorted(FAMILIES))}")
    try:
        total = layers_of(text, size or Bytes())
    except KeyError as missing:
        raise ValueError(f"config of model_type {model_type!r} lacks the key {missing}") from missing
    return PrefixCost(total.linear_flops, total.quadratic_flops, total.kv_bytes, total.state_bytes)


def _times(count: int, layer: LayerCost) -> LayerCost:
    return LayerCost(
        count * layer.linear_flops,
        count * layer.quadratic_flops,
        count * layer.kv_bytes,
        count * layer.state_bytes,
    )


def _attention(config: Config, size: Bytes, gated: bool = False) -> LayerCost:
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    head_dim = config.get("head_dim") or config.get("attention_head_dim") or hidden // heads
    kv_heads = config.get("num_key_value_heads") or heads
    return attention(hidden, heads, kv_heads, head_dim, size, gated)


def _plain(config: Config, size: Bytes) -> LayerCost:
    layer = _attention(config, size) + _experts_or_mlp(config)
    return _times(config["num_hidden_layers"], layer)


def _experts_or_mlp(config: Config) -> LayerCost:
    """The MLP of a layer: dense, or the experts that one token activates plus the shared one."""
    hidden = config["hidden_size"]
    active = config.get("num_experts_per_tok") or 0
    experts = config.get("num_experts") or config.get("num_local_experts") or 0
    if not experts or not active:
        return mlp(hidden, config["intermediate_size"])
    width = config.get("moe_intermediate_size") or config["intermediate_size"]
    shared = config.get("shared_expert_intermediate_size") or 0
    return mlp(hidden, active * width + shared) + LayerCost(linear_flops=2 * hidden * experts)


def _falcon_h1(config: Config, size: Bytes) -> LayerCost:
    hidden = config["hidden_size"]
    inner = config.get("mamba_d_ssm") or config["mamba_expand"] * hidden
    mixer = mamba2(
        hidden,
        inner,
        config["mamba_n_heads"],
        config["mamba_n_groups"],
        config["mamba_d_state"],
        config["mamba_d_conv"],
        size,
    )
    layer = _attention(config, size) + mixer + mlp(hidden, config["intermediate_size"])
    return _times(config["num_hidden_layers"], layer)


def _granite4(config: Config, size: Bytes) -> LayerCost:
    hidden = config["hidden_size"]
    kinds = config.get("layer_types") or config["layers_block_type"]
    mixer = mamba2(
        hidden,
        config["mamba_expand"] * hidden,
        config["mamba_n_heads"],
        config["mamba_n_groups"],
        config["mamba_d_state"],
        config["mamba_d_conv"],
        size,
    )
    experts = config.get("num_experts_per_tok", 0) if config.get("num_local_experts") else 0
    ffn = mlp(hidden, config["shared_intermediate_size"] + experts * config["intermediate_size"])
    mambas = sum(kind == "mamba" for kind in kinds)
    return _times(mambas, mixer) + _times(len(kinds) - mambas, _attention(config, size)) + _times(len(kinds), ffn)


def _nemotron_h(config: Config, size: Bytes) -> LayerCost:
    hidden, pattern = config["hidden_size"], config["hybrid_override_pattern"]
    heads = config["mamba_num_heads"]
    mixer = mamba2(
        hidden,
        heads * config["mamba_head_dim"],
        heads,
        config["n_groups"],
        config["ssm_state_size"],
        config["conv_kernel"],
        size,
    )
    total = _times(pattern.count("M"), mixer) + _times(pattern.count("*"), _attention(config, size))
    total += _times(pattern.count("-"), mlp(hidden, config["intermediate_size"], gated=False))
    if experts := pattern.count("E"):
        width = config["num_experts_per_tok"] * config["moe_intermediate_size"]
        width += config.get("moe_shared_expert_intermediate_size", 0)
        total += _times(experts, mlp(hidden, width, gated=False))
    return total


def _qwen3_next(config: Config, size: Bytes) -> LayerCost:
    layers = config["num_hidden_layers"]
    interval = config.get("full_attention_interval") or 4
    kinds = config.get("layer_types") or [
        "full_attention" if (layer + 1) % interval == 0 else "linear_attention" for layer in range(layers)
    ]
    mixer = gated_delta_net(
        config["hidden_size"],
        config["linear_num_key_heads"],
        config["linear_num_value_heads"],
        config["linear_key_head_dim"],
        config["linear_value_head_dim"],
        config["linear_conv_kernel_dim"],
        size,
    )
    linear = sum(kind == "linear_attention" for kind in kinds)
    return (
        _times(linear, mixer)
        + _times(layers - linear, _attention(config, size, gated=True))
        + _times(layers, _experts_or_mlp(config))
    )


def _lfm2(config: Config, size: Bytes) -> LayerCost:
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kinds = config["layer_types"]
    convs = sum(kind == "conv" for kind in kinds)
    width = config.get("intermediate_size") or config["block_ff_dim"]
    return (
        _times(convs, short_conv(hidden, config["conv_L_cache"], size))
        + _times(layers - convs, _attention(config, size))
        + _times(layers, mlp(hidden, width))
    )


FAMILIES: dict[str, Callable[[Config, Bytes], LayerCost]] = {
    "falcon_h1": _falcon_h1,
    "granitemoehybrid": _granite4,
    "nemotron_h": _nemotron_h,
    "qwen3_next": _qwen3_next,
    "qwen3_5": _qwen3_next,
    "qwen3_5_moe": _qwen3_next,
    "lfm2": _lfm2,
    "lfm2_moe": _lfm2,
    "llama": _plain,
    "mistral": _plain,
    "qwen2": _plain,
    "qwen3": _plain,
    "qwen3_moe": _plain,
}
