"""The layers of each family of models, from the keys of its ``config.json``.

A function takes the configuration and the element sizes and adds up the layers. Sources: the configurations and
modelling code of transformers 5 and SGLang 0.5.23; Jamba and Zamba2 as published, SGLang does not serve them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sglang_marconi.cost.layers import (
    Bytes,
    LayerCost,
    attention,
    gated_delta_net,
    kimi_delta_attention,
    latent_attention,
    lightning_attention,
    mamba1,
    mamba2,
    mlp,
    router,
    short_conv,
)

Config = Mapping[str, Any]

# Configurations written by transformers 5 name recurrent and attention layers alike in all families.
_RECURRENT = {"M", "mamba", "linear_attention", "conv"}
_ATTENTION = {"*", "attention", "full_attention"}
_MLP = {"-", "mlp"}
_EXPERTS = {"E", "moe"}


def _count(kinds: Any, names: set[str]) -> int:
    return sum(kind in names for kind in kinds)


def _attention(config: Config, size: Bytes, gated: bool = False) -> LayerCost:
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    head_dim = config.get("head_dim") or config.get("attention_head_dim") or hidden // heads
    kv_heads = config.get("num_key_value_heads") or heads
    return attention(hidden, heads, kv_heads, head_dim, size, gated)


def _latent_attention(config: Config, size: Bytes) -> LayerCost:
    return latent_attention(
        config["hidden_size"],
        config["num_attention_heads"],
        config["qk_nope_head_dim"],
        config["qk_rope_head_dim"],
        config["v_head_dim"],
        config["kv_lora_rank"],
        config.get("q_lora_rank"),
        size,
    )


def _plain(config: Config, size: Bytes) -> LayerCost:
    layer = _attention(config, size) + _experts_or_mlp(config)
    return config["num_hidden_layers"] * layer


def _experts_or_mlp(config: Config) -> LayerCost:
    """The MLP of a layer: dense, or the experts that one token activates plus the shared one."""
    hidden = config["hidden_size"]
    active = config.get("num_experts_per_tok") or 0
    experts = config.get("num_experts") or config.get("num_local_experts") or 0
    if not experts or not active:
        return mlp(hidden, config["intermediate_size"])
    width = config.get("moe_intermediate_size") or config["intermediate_size"]
    layer = mlp(hidden, active * width) + router(hidden, experts)
    if shared := config.get("shared_expert_intermediate_size"):
        layer += mlp(hidden, shared) + router(hidden, 1)  # the shared expert's gate
    return layer


def _experts_after_dense(config: Config, active: int, shared: int) -> LayerCost:
    """All MLPs of a model whose first layers are dense and whose others have experts."""
    hidden, layers, width = config["hidden_size"], config["num_hidden_layers"], config["moe_intermediate_size"]
    dense = min(layers, config.get("first_k_dense_replace") or 0)
    sparse = mlp(hidden, (active + shared) * width) + router(hidden, config["num_experts"])
    return dense * mlp(hidden, config["intermediate_size"]) + (layers - dense) * sparse


def _falcon_h1(config: Config, size: Bytes) -> LayerCost:
    hidden = config["hidden_size"]
    inner = config.get("mamba_d_ssm") or config["mamba_expand"] * hidden
    mixer = _mamba2(config, inner, size)
    layer = _attention(config, size) + mixer + mlp(hidden, config["intermediate_size"])
    return config["num_hidden_layers"] * layer


def _mamba2(config: Config, inner: int, size: Bytes) -> LayerCost:
    return mamba2(
        config["hidden_size"],
        inner,
        config["mamba_n_heads"],
        config["mamba_n_groups"],
        config["mamba_d_state"],
        config["mamba_d_conv"],
        size,
    )


def _granite4(config: Config, size: Bytes) -> LayerCost:
    hidden = config["hidden_size"]
    kinds = config.get("layer_types") or config["layers_block_type"]
    mixer = _mamba2(config, config["mamba_expand"] * hidden, size)
    all_experts = config.get("num_local_experts") or 0
    active = config.get("num_experts_per_tok", 0) if all_experts else 0
    ffn = mlp(hidden, config["shared_intermediate_size"] + active * config["intermediate_size"])
    if active:
        ffn += router(hidden, all_experts)
    return _count(kinds, _RECURRENT) * mixer + _count(kinds, _ATTENTION) * _attention(config, size) + len(kinds) * ffn


def _bamba(config: Config, size: Bytes) -> LayerCost:
    layers = config["num_hidden_layers"]
    attentions = len(config.get("attn_layer_indices") or [])
    mixer = _mamba2(config, config["mamba_expand"] * config["hidden_size"], size)
    return (
        (layers - attentions) * mixer
        + attentions * _attention(config, size)
        + layers * mlp(config["hidden_size"], config["intermediate_size"])
    )


def _nemotron_h(config: Config, size: Bytes) -> LayerCost:
    hidden = config["hidden_size"]
    kinds = config.get("layers_block_type") or config["hybrid_override_pattern"]
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
    total = _count(kinds, _RECURRENT) * mixer + _count(kinds, _ATTENTION) * _attention(config, size)
    if mlps := _count(kinds, _MLP):
        total += mlps * mlp(hidden, config["intermediate_size"], gated=False)
    if experts := _count(kinds, _EXPERTS):
        width = config["num_experts_per_tok"] * config["moe_intermediate_size"]
        width += config.get("moe_shared_expert_intermediate_size") or 0
        total += experts * (mlp(hidden, width, gated=False) + router(hidden, config["n_routed_experts"]))
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
    linear = _count(kinds, _RECURRENT)
    return linear * mixer + (layers - linear) * _attention(config, size, gated=True) + layers * _experts_or_mlp(config)


def _kimi_linear(config: Config, size: Bytes) -> LayerCost:
    layers, linear = config["num_hidden_layers"], config.get("linear_attn_config")
    if linear is not None:  # as published
        recurrent = len(linear["kda_layers"])
        heads, head_dim, kernel = linear["num_heads"], linear["head_dim"], linear["short_conv_kernel_size"]
    else:
        recurrent = _count(config["layer_types"], _RECURRENT)
        heads, head_dim, kernel = (
            config["linear_num_heads"],
            config["linear_head_dim"],
            config["linear_conv_kernel_dim"],
        )
    mixer = kimi_delta_attention(config["hidden_size"], heads, head_dim, kernel, size)
    return (
        recurrent * mixer
        + (layers - recurrent) * _latent_attention(config, size)
        + _experts_after_dense(config, config["num_experts_per_token"], config.get("num_shared_experts") or 0)
    )


def _bailing_hybrid(config: Config, size: Bytes) -> LayerCost:
    layers, group = config["num_hidden_layers"], config["layer_group_size"]
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    head_dim = config.get("head_dim") or hidden // heads
    attentions = layers // group if isinstance(group, int) else sum(kind != 1 for kind in group)
    if kernel := config.get("short_conv_kernel_size"):
        mixer = kimi_delta_attention(hidden, heads, head_dim, kernel, size)
    else:
        mixer = lightning_attention(hidden, heads, head_dim, size)
    is_latent = config.get("full_attention_type", "mla") == "mla"
    full = _latent_attention(config, size) if is_latent else _attention(config, size)
    return (
        (layers - attentions) * mixer
        + attentions * full
        + _experts_after_dense(config, config["num_experts_per_tok"], config.get("num_shared_experts") or 0)
    )


def _lfm2(config: Config, size: Bytes) -> LayerCost:
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    attentions = config.get("full_attn_idxs")
    convs = _count(config["layer_types"], _RECURRENT) if attentions is None else layers - len(attentions)
    width = config.get("block_ff_dim") or config["intermediate_size"]
    if not config.get("num_experts"):
        ffn = layers * mlp(hidden, _lfm2_width(config, width))
    else:
        dense = config["num_dense_layers"]
        sparse = mlp(hidden, config["num_experts_per_tok"] * config["moe_intermediate_size"])
        ffn = dense * mlp(hidden, width) + (layers - dense) * (sparse + router(hidden, config["num_experts"]))
    return convs * short_conv(hidden, config["conv_L_cache"], size) + (layers - convs) * _attention(config, size) + ffn


def _lfm2_width(config: Config, width: int) -> int:
    """The dense models' true width: two thirds of the configured one, scaled and rounded up, unless that is off."""
    if not config.get("block_auto_adjust_ff_dim", True):
        return width
    multiple = config["block_multiple_of"]
    width = int(config["block_ffn_dim_multiplier"] * int(2 * width / 3))
    return -(-width // multiple) * multiple


def _jamba(config: Config, size: Bytes) -> LayerCost:
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    inner = config["mamba_expand"] * hidden
    dt_rank = config["mamba_dt_rank"]
    if dt_rank == "auto":
        dt_rank = -(-hidden // 16)
    mixer = mamba1(hidden, inner, config["mamba_d_state"], config["mamba_d_conv"], dt_rank, size)
    attentions = _periodic(layers, config["attn_layer_period"], config["attn_layer_offset"])
    experts = _periodic(layers, config["expert_layer_period"], config["expert_layer_offset"])
    dense = mlp(hidden, config["intermediate_size"])
    sparse = config["num_experts_per_tok"] * dense + router(hidden, config["num_experts"])
    return (
        (layers - attentions) * mixer
        + attentions * _attention(config, size)
        + (layers - experts) * dense
        + experts * sparse
    )


def _periodic(layers: int, period: int, offset: int) -> int:
    return sum(layer % period == offset for layer in range(layers))


def _zamba2(config: Config, size: Bytes) -> LayerCost:
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    hybrids = len(config["hybrid_layer_ids"])
    mixer = mamba2(
        hidden,
        config["mamba_expand"] * hidden,
        config["n_mamba_heads"],
        config["mamba_ngroups"],
        config["mamba_d_state"],
        config["mamba_d_conv"],
        size,
    )
    # The shared transformer block sees the hidden states beside the embeddings.
    heads = config["num_attention_heads"]
    shared = attention(
        hidden,
        heads,
        config.get("num_key_value_heads") or heads,
        config.get("attention_head_dim") or 2 * hidden // heads,
        size,
        input_width=2 * hidden,
    )
    rank = config["adapter_rank"]
    adapter = LayerCost(linear_flops=2 * rank * (hidden + 2 * config["intermediate_size"]))
    to_mamba = LayerCost(linear_flops=2 * hidden * hidden)
    return layers * mixer + hybrids * (shared + mlp(hidden, config["intermediate_size"]) + adapter + to_mamba)


#: ``model_type``, without the suffix ``_text`` of a multi-modal model's part -> all layers.
FAMILIES: dict[str, Callable[[Config, Bytes], LayerCost]] = {
    "bailing_hybrid": _bailing_hybrid,
    "bamba": _bamba,
    "falcon_h1": _falcon_h1,
    "granitemoehybrid": _granite4,
    "jamba": _jamba,
    "kimi_linear": _kimi_linear,
    "nemotron_h": _nemotron_h,
    "qwen3_next": _qwen3_next,
    "qwen3_5": _qwen3_next,
    "qwen3_5_moe": _qwen3_next,
    "lfm2": _lfm2,
    "lfm2_moe": _lfm2,
    "zamba2": _zamba2,
    "llama": _plain,
    "mistral": _plain,
    "qwen2": _plain,
    "qwen3": _plain,
    "qwen3_moe": _plain,
}
