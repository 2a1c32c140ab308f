"""Tiny models with random weights, one per family of hybrid models that SGLang serves, for tests on a CPU."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel

from sglang_marconi.platform.tokenizer import END_TOKEN_ID, VOCAB_SIZE, save_tokenizer

CONTEXT_TOKENS = 16384
# The grid on which SGLang takes states inside a prefill.
STATE_GRID_TOKENS = 64

COMMON: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": CONTEXT_TOKENS,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": END_TOKEN_ID,
    "pad_token_id": END_TOKEN_ID,
    "dtype": "float32",
}


def make_tiny_model(family: str, directory: str | Path, seed: int = 0) -> Path:
    """Write a tiny model of a family: configuration, weights, tokenizer, chat template, generation configuration.

    Args:
        family: a key of `FAMILIES`.
        directory: created if absent; files of the same names are overwritten.
        seed: of the weights; the same seed gives the same weights.

    Returns:
        The directory, to be served with ``--model-path``.

    Raises:
        ValueError: if the family is unknown.
    """
    if family not in FAMILIES:
        raise ValueError(f"family must be one of {', '.join(sorted(FAMILIES))}, got {family!r}")
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    model_class, config = FAMILIES[family]()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = model_class(config)
    _spread_weights(model, seed)
    model.generation_config.update(do_sample=False, eos_token_id=END_TOKEN_ID, pad_token_id=END_TOKEN_ID)
    model.save_pretrained(target)
    _name_layers_as_published(target / "config.json")
    save_tokenizer(target, CONTEXT_TOKENS)
    return target


def _name_layers_as_published(path: Path) -> None:
    """Transformers 5 renames the layers' kinds of Nemotron-H; SGLang reads the names of the published checkpoints."""
    config = json.loads(path.read_text(encoding="utf-8"))
    if "layers_block_type" in config:
        published = {"linear_attention": "mamba", "full_attention": "attention"}
        config["layers_block_type"] = [published.get(kind, kind) for kind in config["layers_block_type"]]
        path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _spread_weights(model: PreTrainedModel, seed: int) -> None:
    """Draw weights that keep activations near unit size, so that inputs and states show in the outputs.

    The initialisation for training (0.02) makes a model of this width answer nearly the same to every prompt.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if name.endswith("A_log"):
                # Decay rates from slow to fast, so that some heads remember hundreds of tokens.
                weight.copy_(torch.log(torch.logspace(-1.5, 0.3, weight.numel())))
            elif name.endswith("dt_bias"):
                weight.copy_(torch.linspace(-3.0, 0.0, weight.numel()))
            elif weight.dim() >= 2:
                fan_in = 1 if "embed" in name else weight[0].numel() if weight.dim() != 3 else weight.shape[-1]
                gain = 2.0 if name.endswith("lm_head.weight") else 1.0
                weight.copy_(torch.randn(weight.shape, generator=generator) * (gain / math.sqrt(fan_in)))


def _falcon_h1() -> tuple[type[PreTrainedModel], PretrainedConfig]:
    from transformers import FalconH1Config, FalconH1ForCausalLM

    config = FalconH1Config(
        **COMMON,
        num_hidden_layers=3,
        mamba_d_ssm=128,
        mamba_n_heads=8,
        mamba_d_head=16,
        mamba_d_state=16,
        mamba_n_groups=1,
        mamba_chunk_size=STATE_GRID_TOKENS,
    )
    return FalconH1ForCausalLM, config


def _granite4() -> tuple[type[PreTrainedModel], PretrainedConfig]:
    from transformers import GraniteMoeHybridConfig, GraniteMoeHybridForCausalLM

    config = GraniteMoeHybridConfig(
        **COMMON,
        num_hidden_layers=3,
        layer_types=["mamba", "attention", "mamba"],
        # As the dense members of the family (350M, 1B, micro).
        num_local_experts=0,
        num_experts_per_tok=0,
        shared_intermediate_size=128,
        position_embedding_type="nope",
        attention_multiplier=0.25,
        mamba_n_heads=8,
        mamba_d_head=16,
        mamba_d_state=16,
        mamba_n_groups=1,
        mamba_chunk_size=STATE_GRID_TOKENS,
    )
    return GraniteMoeHybridForCausalLM, config


def _nemotron_h() -> tuple[type[PreTrainedModel], PretrainedConfig]:
    from transformers import NemotronHConfig, NemotronHForCausalLM

    config = NemotronHConfig(
        **COMMON,
        layers_block_type=["mamba", "mlp", "attention", "mamba", "mlp"],
        mamba_num_heads=16,
        mamba_head_dim=8,
        ssm_state_size=16,
        # SGLang's mixer takes 8 whatever the configuration says (it reads another key), as all published models have.
        n_groups=8,
        chunk_size=STATE_GRID_TOKENS,
    )
    return NemotronHForCausalLM, config


GATED_DELTA: dict[str, Any] = {
    "num_hidden_layers": 4,
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
}


def _qwen3_next() -> tuple[type[PreTrainedModel], PretrainedConfig]:
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

    config = Qwen3NextConfig(
        **COMMON,
        **GATED_DELTA,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=64,
        shared_expert_intermediate_size=64,
    )
    # SGLang derives the layers' kinds from the interval that published configurations give.
    config.full_attention_interval = 4
    return Qwen3NextForCausalLM, config


def _qwen3_5() -> tuple[type[PreTrainedModel], PretrainedConfig]:
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    config = Qwen3_5TextConfig(**COMMON, **GATED_DELTA)
    config.full_attention_interval = 4
    return Qwen3_5ForCausalLM, config


def _lfm2() -> tuple[type[PreTrainedModel], PretrainedConfig]:
    from transformers import Lfm2Config, Lfm2ForCausalLM

    config = Lfm2Config(
        **COMMON,
        num_hidden_layers=3,
        layer_types=["conv", "full_attention", "conv"],
        conv_L_cache=3,
        block_auto_adjust_ff_dim=False,
    )
    return Lfm2ForCausalLM, config


def _llama() -> tuple[type[PreTrainedModel], PretrainedConfig]:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM, LlamaConfig(**COMMON, num_hidden_layers=2)


FAMILIES: dict[str, Callable[[], tuple[type[PreTrainedModel], PretrainedConfig]]] = {
    "falcon_h1": _falcon_h1,
    "granite4": _granite4,
    "nemotron_h": _nemotron_h,
    "qwen3_next": _qwen3_next,
    "qwen3_5": _qwen3_5,
    "lfm2": _lfm2,
    "llama": _llama,
}
