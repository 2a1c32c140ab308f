"""FLOPs and bytes of a real model, from its Hugging Face ``config.json``."""

from __future__ import annotations

from sglang_marconi.cost.families import FAMILIES, Config
from sglang_marconi.cost.layers import Bytes
from sglang_marconi.cost.prefix_cost import PrefixCost

#: Bytes of one element, by the names of torch.
DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1}


def element_bytes(config: Config) -> Bytes:
    """What SGLang makes of a configuration on one GPU: half-precision KV and conv state, and a recurrent state as
    ``mamba_ssm_dtype`` says, or float32.

    Raises:
        ValueError: that is no type of a recurrent state.
    """
    dtype = _text_config(config).get("mamba_ssm_dtype") or "float32"
    if dtype not in DTYPE_BYTES:
        raise ValueError(f"mamba_ssm_dtype must be one of {', '.join(DTYPE_BYTES)}, got {dtype!r}")
    return Bytes(state=DTYPE_BYTES[dtype])


def _text_config(config: Config) -> Config:
    text: Config = config.get("text_config") or config.get("llm_config") or config
    return text


def cost_from_config(config: Config, size: Bytes | None = None) -> PrefixCost:
    """The cost model of a hybrid or plain transformer.

    Args:
        config: the parsed ``config.json``; a multi-modal one is read in its ``text_config``.
        size: bytes per element, and ranks; `element_bytes` by default.

    Raises:
        ValueError: the model type is not known, a key that its formulas need is missing or no number, or the ranks do
            not divide what they share.
    """
    text = _text_config(config)
    model_type = str(text.get("model_type", config.get("model_type", "")))
    layers_of = FAMILIES.get(model_type.removesuffix("_text"))
    if layers_of is None:
        raise ValueError(f"no FLOP formulas for model_type {model_type!r}; known: {', '.join(sorted(FAMILIES))}")
    try:
        total = layers_of(text, size or element_bytes(config))
    except KeyError as missing:
        raise ValueError(f"config of model_type {model_type!r} lacks the key {missing}") from missing
    except (TypeError, ZeroDivisionError) as error:
        raise ValueError(
            f"config of model_type {model_type!r} has a value that its formulas cannot use: {error}"
        ) from error
    return PrefixCost(total.linear_flops, total.quadratic_flops, total.kv_bytes, total.state_bytes)
