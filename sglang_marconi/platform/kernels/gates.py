"""Sigmoid gates on the outputs of attention and of shared experts."""

from __future__ import annotations

import torch


def fused_sigmoid_mul(
    attn_output: torch.Tensor, gate: torch.Tensor, inplace: bool = False, quant: bool = False
) -> torch.Tensor:
    """``attn_output * sigmoid(gate)``.

    Args:
        attn_output: (tokens, channels).
        gate: the same, or (tokens, heads, head dim).
        inplace: write to ``attn_output`` and return it.

    Raises:
        NotImplementedError: with ``quant``; FP8 outputs are a GPU's.
    """
    if quant:
        raise NotImplementedError("marconi_cpu: fused_sigmoid_mul has no FP8 output; serve without quantization")
    gated = (attn_output.float() * torch.sigmoid(gate.reshape(attn_output.shape).float())).to(attn_output.dtype)
    return attn_output.copy_(gated) if inplace else gated


def sigmoid_gate_mul_broadcast(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """``x * sigmoid(gate)`` with one gate a token: ``x`` (tokens, channels), ``gate`` (tokens, 1)."""
    return (x.float() * torch.sigmoid(gate.float()).reshape(-1, 1)).to(x.dtype)


def fused_gate_sigmoid_mul(
    hidden_states: torch.Tensor, gate_weight: torch.Tensor, shared_output: torch.Tensor
) -> torch.Tensor:
    """Shared experts' output times the sigmoid of the token's projection on the gate.

    Args:
        hidden_states, shared_output: (tokens, channels).
        gate_weight: (channels,).
    """
    gate = (hidden_states.float() * gate_weight.float()).sum(-1, keepdim=True)
    return sigmoid_gate_mul_broadcast(shared_output, gate)


def fused_gate_sigmoid_mul_add(
    hidden_states: torch.Tensor,
    gate_weight: torch.Tensor,
    shared_output: torch.Tensor,
    final_hidden_states: torch.Tensor,
) -> None:
    """Add `fused_gate_sigmoid_mul` to the routed experts' output, in place."""
    gate = (hidden_states.float() * gate_weight.float()).sum(-1, keepdim=True)
    added = final_hidden_states.float() + shared_output.float() * torch.sigmoid(gate)
    final_hidden_states.copy_(added.to(final_hidden_states.dtype))
