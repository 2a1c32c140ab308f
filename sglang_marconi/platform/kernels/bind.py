"""Which SGLang function each reference kernel stands for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from sglang_marconi.platform import seams
from sglang_marconi.platform.kernels import (
    causal_conv1d,
    gated_delta,
    gated_norm,
    gates,
    mamba2,
    projections,
    state_slots,
)

Kernel = Callable[..., Any]

_IN_KERNELS_OPS: dict[str, Kernel] = {
    "mamba.causal_conv1d_triton:causal_conv1d_fn": causal_conv1d.causal_conv1d_fn,
    "mamba.causal_conv1d_triton:causal_conv1d_update": causal_conv1d.causal_conv1d_update,
    "mamba.triton_ops.ssd_combined:mamba_chunk_scan_combined": mamba2.mamba_chunk_scan_combined,
    # Not the Triton function itself: the dispatcher takes hold of that before the platform is initialised.
    "mamba.triton_ops.ssu_dispatch:selective_state_update": mamba2.selective_state_update,
    "mamba.mamba_state_scatter_triton:track_mamba_states_if_needed": state_slots.track_mamba_states_if_needed,
    "mamba.mamba_state_scatter_triton:track_mamba_states_all_layers": state_slots.track_mamba_states_all_layers,
    "attention.fla.chunk:chunk_gated_delta_rule": gated_delta.chunk_gated_delta_rule,
    "attention.fla.fused_recurrent:fused_recurrent_gated_delta_rule_packed_decode": (
        gated_delta.fused_recurrent_gated_delta_rule_packed_decode
    ),
    "attention.fla.fused_norm_gate:rms_norm_gated": gated_norm.fused_rms_norm_gated,
    "attention.fla.layernorm_gated:layernorm_fn": gated_norm.layernorm_fn,
    "attention.fla.layernorm_gated:rms_norm_gated": gated_norm.rms_norm_gated,
    "attention.linear.fused_gdn_gating:fused_gdn_gating": gated_delta.fused_gdn_gating,
    "attention.linear.fused_sigmoid_gating_recurrent:fused_sigmoid_gating_delta_rule_update": (
        gated_delta.fused_sigmoid_gating_delta_rule_update
    ),
    "attention.triton_gdn_fused_proj:fused_qkvzba_split_reshape_cat": projections.fused_qkvzba_split_reshape_cat,
    "attention.triton_gdn_fused_proj:fused_qkvzba_split_reshape_cat_contiguous": (
        projections.fused_qkvzba_split_reshape_cat_contiguous
    ),
    "elementwise.elementwise:fused_sigmoid_mul": gates.fused_sigmoid_mul,
    "elementwise.elementwise:sigmoid_gate_mul_broadcast": gates.sigmoid_gate_mul_broadcast,
    "elementwise.elementwise:fused_gate_sigmoid_mul": gates.fused_gate_sigmoid_mul,
    "elementwise.elementwise:fused_gate_sigmoid_mul_add": gates.fused_gate_sigmoid_mul_add,
}
REPLACEMENTS = {f"sglang.kernels.ops.{seam}": kernel for seam, kernel in _IN_KERNELS_OPS.items()}


# SGLang's Mamba-2 mixer names its convolutions per known platform and leaves them undefined on others.
MIXER = "sglang.srt.layers.attention.mamba.mamba"
MIXER_NAMES: dict[str, Kernel] = {
    "causal_conv1d_fn": causal_conv1d.causal_conv1d_fn,
    "causal_conv1d_fn_triton": causal_conv1d.causal_conv1d_fn,
    "causal_conv1d_update": causal_conv1d.causal_conv1d_update,
    "causal_conv1d_update_triton": causal_conv1d.causal_conv1d_update,
}


def install() -> None:
    """Bind every reference kernel. Called once per worker, before the models are imported.

    Raises:
        RuntimeError: if this SGLang lacks a name that a kernel stands for.
    """
    seams.check([*REPLACEMENTS, f"{MIXER}:MambaMixer2"])
    for seam, kernel in REPLACEMENTS.items():
        seams.replace(seam, kernel)
    mixer = importlib.import_module(MIXER)
    for name, kernel in MIXER_NAMES.items():
        setattr(mixer, name, kernel)
