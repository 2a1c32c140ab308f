"""Which SGLang function each reference kernel stands for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from sglang_marconi.platform import seams
from sglang_marconi.platform.kernels import causal_conv1d, gated_delta, gated_norm, mamba2, projections, state_slots

_KERNELS_OF_MODULE: dict[str, tuple[Callable[..., Any], ...]] = {
    "sglang.kernels.ops.mamba.causal_conv1d_triton": (
        causal_conv1d.causal_conv1d_fn,
        causal_conv1d.causal_conv1d_update,
    ),
    "sglang.kernels.ops.mamba.triton_ops.ssd_combined": (mamba2.mamba_chunk_scan_combined,),
    # Not the Triton function itself: the dispatcher takes hold of that before the platform is initialised.
    "sglang.kernels.ops.mamba.triton_ops.ssu_dispatch": (mamba2.selective_state_update,),
    "sglang.kernels.ops.mamba.mamba_state_scatter_triton": (
        state_slots.track_mamba_states_if_needed,
        state_slots.track_mamba_states_all_layers,
    ),
    "sglang.kernels.ops.attention.fla.chunk": (gated_delta.chunk_gated_delta_rule,),
    "sglang.kernels.ops.attention.fla.fused_recurrent": (gated_delta.fused_recurrent_gated_delta_rule_packed_decode,),
    "sglang.kernels.ops.attention.fla.layernorm_gated": (gated_norm.layernorm_fn, gated_norm.rms_norm_gated),
    "sglang.kernels.ops.attention.linear.fused_gdn_gating": (gated_delta.fused_gdn_gating,),
    "sglang.kernels.ops.attention.linear.fused_sigmoid_gating_recurrent": (
        gated_delta.fused_sigmoid_gating_delta_rule_update,
    ),
    "sglang.kernels.ops.attention.triton_gdn_fused_proj": (
        projections.fused_qkvzba_split_reshape_cat,
        projections.fused_qkvzba_split_reshape_cat_contiguous,
    ),
}
# A kernel bears the name of the function it stands for.
REPLACEMENTS = {
    f"{module}:{kernel.__name__}": kernel for module, kernels in _KERNELS_OF_MODULE.items() for kernel in kernels
}


def install() -> None:
    """Bind every reference kernel. Called once per worker, before the models are imported."""
    for seam, kernel in REPLACEMENTS.items():
        seams.replace(seam, kernel)
    # SGLang's Mamba-2 mixer names its convolutions per known platform and leaves them undefined on others.
    mixer = importlib.import_module("sglang.srt.layers.attention.mamba.mamba")
    for name in ("causal_conv1d_fn", "causal_conv1d_update"):
        kernel = getattr(causal_conv1d, name)
        setattr(mixer, name, kernel)
        setattr(mixer, f"{name}_triton", kernel)
