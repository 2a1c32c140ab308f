"""Which SGLang function each reference kernel stands for."""

from __future__ import annotations

import importlib

from sglang_marconi.platform import seams
from sglang_marconi.platform.kernels import causal_conv1d, mamba2, state_slots

REPLACEMENTS = {
    "sglang.kernels.ops.mamba.causal_conv1d_triton:causal_conv1d_fn": causal_conv1d.causal_conv1d_fn,
    "sglang.kernels.ops.mamba.causal_conv1d_triton:causal_conv1d_update": causal_conv1d.causal_conv1d_update,
    "sglang.kernels.ops.mamba.triton_ops.ssd_combined:mamba_chunk_scan_combined": mamba2.mamba_chunk_scan_combined,
    "sglang.kernels.ops.mamba.triton_ops.ssu_dispatch:selective_state_update": mamba2.selective_state_update,
    "sglang.kernels.ops.mamba.mamba_state_scatter_triton:track_mamba_states_if_needed": (
        state_slots.track_mamba_states_if_needed
    ),
    "sglang.kernels.ops.mamba.mamba_state_scatter_triton:track_mamba_states_all_layers": (
        state_slots.track_mamba_states_all_layers
    ),
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
