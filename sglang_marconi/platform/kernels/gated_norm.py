"""RMS and layer normalisation with a gate, in groups of channels."""

from __future__ import annotations

import torch
from torch.nn import functional


def layernorm_fn(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    z: torch.Tensor | None = None,
    eps: float = 1e-6,
    group_size: int | None = None,
    norm_before_gate: bool = True,
    is_rms_norm: bool = False,
    activation: str = "swish",
) -> torch.Tensor:
    """Normalise the last dimension of ``x`` in groups, gated by ``z`` after or before.

    Args:
        x: (..., channels).
        weight: (channels,).
        bias: (channels,) or None.
        z: as many rows as ``x``, or None.
        group_size: channels normalised together, default all.
        norm_before_gate: True for ``norm(x) * act(z)``, False for ``norm(x * act(z))``.
        is_rms_norm: divide by the root mean square; False subtracts the mean first.
        activation: of the gate, "swish", "silu" or "sigmoid".

    Returns:
        Like ``x``; computed in float32.
    """
    values = x.float()
    gate = None if z is None else _activate(z.reshape(x.shape).float(), activation)
    if gate is not None and not norm_before_gate:
        values = values * gate
    groups = values.unflatten(-1, (-1, group_size or x.shape[-1]))
    if not is_rms_norm:
        groups = groups - groups.mean(-1, keepdim=True)
    normed = groups * torch.rsqrt(groups.square().mean(-1, keepdim=True) + eps)
    out = normed.flatten(-2) * weight.float()
    if bias is not None:
        out = out + bias.float()
    if gate is not None and norm_before_gate:
        out = out * gate
    return out.to(x.dtype)


def rms_norm_gated(
    *,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    z: torch.Tensor | None = None,
    eps: float = 1e-6,
    group_size: int | None = None,
    norm_before_gate: bool = True,
    is_rms_norm: bool = False,
    activation: str = "swish",
) -> torch.Tensor:
    """`layernorm_fn` by keyword, as SGLang's Mamba-2 mixer calls it."""
    return layernorm_fn(x, weight, bias, z, eps, group_size, norm_before_gate, is_rms_norm, activation)


def fused_rms_norm_gated(
    x: torch.Tensor,
    g: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    activation: str = "swish",
    residual: torch.Tensor | None = None,
    prenorm: bool = False,
    residual_in_fp32: bool = False,
    eps: float = 1e-6,
) -> torch.Tensor:
    """`layernorm_fn` with the gate after the norm, as SGLang's gated delta nets call it.

    Raises:
        NotImplementedError: with a residual, which no model of SGLang passes.
    """
    if residual is not None or prenorm:
        raise NotImplementedError("marconi_cpu: the gated norm takes no residual")
    return layernorm_fn(x, weight, bias, g, eps, is_rms_norm=True, activation=activation)


def _activate(gate: torch.Tensor, activation: str) -> torch.Tensor:
    if activation in ("swish", "silu"):
        return functional.silu(gate)
    if activation == "sigmoid":
        return torch.sigmoid(gate)
    raise ValueError(f"activation must be swish, silu or sigmoid, got {activation!r}")
