"""Times the CPU platform's torch kernels against SGLang's Triton kernels under Triton's interpreter.

    python scripts/bench_kernels.py

Shapes are those of the tiny models: a prefill of 200 tokens, a decode step of 4 rows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

# The interpreter in a process of its own is the tests'.
sys.path.append(str(Path(__file__).parent.parent / "tests"))

from machine import describe_machine
from triton_interpreter import TritonInterpreter

from sglang_marconi.platform.kernels import (
    causal_conv1d,
    gated_delta,
    gated_norm,
    mamba2,
    state_slots,
)

TOKENS, ROWS, SLOTS = 200, 4, 8
HEADS, HEAD_DIM, STATE_DIM = 8, 16, 16
CHANNELS, WIDTH = 160, 4
OPS = "sglang.kernels.ops"
REPEATS = 20

Case = tuple[str, str, Callable[..., Any], dict[str, Any]]


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"{describe_machine()}, triton {version('triton')}")
    print(f"{'kernel':44} {'torch ms':>9} {'interpreter ms':>15} {'times faster':>13}")
    interpreter = TritonInterpreter()
    for label, seam, kernel, arguments in cases():
        ours = milliseconds(kernel, arguments)
        theirs = 1e3 * interpreter.seconds(seam, **arguments)
        print(f"{label:44} {ours:9.3f} {theirs:15.1f} {theirs / ours:13.0f}")
    interpreter.close()


def milliseconds(kernel: Callable[..., Any], arguments: dict[str, Any]) -> float:
    """Best of several calls: the machine may be shared."""
    best = float("inf")
    for _ in range(REPEATS):
        begin = time.perf_counter()
        kernel(**arguments)
        best = min(best, time.perf_counter() - begin)
    return 1e3 * best


def cases() -> list[Case]:
    convolution = f"{OPS}.mamba.causal_conv1d_triton"
    return [
        (
            "causal_conv1d_fn, 200 tokens",
            f"{convolution}:causal_conv1d_fn",
            causal_conv1d.causal_conv1d_fn,
            prefill_window(),
        ),
        (
            "causal_conv1d_update, 4 rows",
            f"{convolution}:causal_conv1d_update",
            causal_conv1d.causal_conv1d_update,
            decode_window(),
        ),
        (
            "mamba_chunk_scan_combined, 200 tokens",
            f"{OPS}.mamba.triton_ops.ssd_combined:mamba_chunk_scan_combined",
            mamba2.mamba_chunk_scan_combined,
            prefill_scan(),
        ),
        (
            "selective_state_update, 4 rows",
            f"{OPS}.mamba.triton_ops.mamba_ssm:selective_state_update",
            mamba2.selective_state_update,
            decode_scan(),
        ),
        (
            "gated delta packed decode, 4 rows",
            f"{OPS}.attention.fla.fused_recurrent:fused_recurrent_gated_delta_rule_packed_decode",
            gated_delta.fused_recurrent_gated_delta_rule_packed_decode,
            decode_delta(),
        ),
        (
            "fused_gdn_gating, 200 tokens",
            f"{OPS}.attention.linear.fused_gdn_gating:fused_gdn_gating",
            gated_delta.fused_gdn_gating,
            {name: decode_delta(TOKENS)[name] for name in ("A_log", "a", "b", "dt_bias")},
        ),
        (
            "rms_norm_gated, 200 tokens",
            f"{OPS}.attention.fla.layernorm_gated:rms_norm_gated",
            gated_norm.rms_norm_gated,
            norm(),
        ),
        (
            "track_mamba_states_all_layers, 4 rows",
            f"{OPS}.mamba.mamba_state_scatter_triton:track_mamba_states_all_layers",
            state_slots.track_mamba_states_all_layers,
            tracked(),
        ),
    ]


def prefill_window() -> dict[str, Any]:
    return {
        "x": torch.randn(CHANNELS, TOKENS),
        "weight": torch.randn(CHANNELS, WIDTH),
        "bias": torch.randn(CHANNELS),
        "conv_states": torch.randn(SLOTS, CHANNELS, WIDTH - 1),
        "query_start_loc": torch.tensor([0, TOKENS], dtype=torch.int32),
        "seq_lens_cpu": [TOKENS],
        "cache_indices": torch.tensor([3], dtype=torch.int32),
        "has_initial_state": torch.tensor([True]),
    }


def decode_window() -> dict[str, Any]:
    return {
        "x": torch.randn(ROWS, CHANNELS),
        "conv_state": torch.randn(SLOTS, CHANNELS, WIDTH - 1),
        "weight": torch.randn(CHANNELS, WIDTH),
        "bias": torch.randn(CHANNELS),
        "activation": "silu",
        "conv_state_indices": torch.arange(ROWS, dtype=torch.int32),
    }


def prefill_scan() -> dict[str, Any]:
    chunk = 64
    starts = range(0, TOKENS, chunk)
    return {
        "x": torch.randn(1, TOKENS, HEADS, HEAD_DIM),
        "dt": torch.randn(1, TOKENS, HEADS),
        "A": -torch.rand(HEADS),
        "B": torch.randn(1, TOKENS, 1, STATE_DIM),
        "C": torch.randn(1, TOKENS, 1, STATE_DIM),
        "chunk_size": chunk,
        "D": torch.randn(HEADS),
        "dt_bias": torch.randn(HEADS) - 2,
        "dt_softplus": True,
        "initial_states": torch.randn(1, HEADS, HEAD_DIM, STATE_DIM),
        "seq_idx": torch.zeros(1, TOKENS, dtype=torch.int32),
        "chunk_indices": torch.arange(len(starts), dtype=torch.int32),
        "chunk_offsets": torch.zeros(len(starts), dtype=torch.int32),
        "cu_seqlens": torch.tensor([0, TOKENS], dtype=torch.int32),
        "out": torch.empty(1, TOKENS, HEADS, HEAD_DIM),
        "return_varlen_states": True,
        "return_track_states": True,
        "state_dtype": torch.float32,
    }


def decode_scan() -> dict[str, Any]:
    return {
        "state": torch.randn(SLOTS, HEADS, HEAD_DIM, STATE_DIM),
        "x": torch.randn(ROWS, HEADS, HEAD_DIM),
        "dt": torch.randn(ROWS, HEADS)[..., None].expand(-1, -1, HEAD_DIM),
        "A": -torch.rand(HEADS)[:, None, None].expand(-1, HEAD_DIM, STATE_DIM),
        "B": torch.randn(ROWS, 1, STATE_DIM),
        "C": torch.randn(ROWS, 1, STATE_DIM),
        "D": torch.randn(HEADS)[:, None].expand(-1, HEAD_DIM),
        "dt_bias": torch.randn(HEADS)[:, None].expand(-1, HEAD_DIM),
        "dt_softplus": True,
        "state_batch_indices": torch.arange(ROWS, dtype=torch.int32),
        "out": torch.empty(ROWS, HEADS, HEAD_DIM),
    }


def decode_delta(rows: int = ROWS) -> dict[str, Any]:
    key_heads, value_heads = 2, 4
    return {
        "mixed_qkv": torch.randn(rows, 2 * key_heads * HEAD_DIM + value_heads * HEAD_DIM),
        "a": torch.randn(rows, value_heads),
        "b": torch.randn(rows, value_heads),
        "A_log": torch.randn(value_heads),
        "dt_bias": torch.randn(value_heads),
        "scale": HEAD_DIM**-0.5,
        "initial_state": torch.randn(SLOTS, value_heads, HEAD_DIM, HEAD_DIM),
        "out": torch.empty(rows, 1, value_heads, HEAD_DIM),
        "ssm_state_indices": torch.arange(rows, dtype=torch.int32) % SLOTS,
        "use_qk_l2norm_in_kernel": True,
    }


def norm() -> dict[str, Any]:
    return {
        "x": torch.randn(TOKENS, 128),
        "weight": torch.randn(128),
        "bias": None,
        "z": torch.randn(TOKENS, 128),
        "is_rms_norm": True,
    }


def tracked() -> dict[str, Any]:
    return {
        "conv_states_pool": torch.randn(3, SLOTS, CHANNELS, WIDTH - 1),
        "ssm_states_pool": torch.randn(3, SLOTS, HEADS, HEAD_DIM, STATE_DIM),
        "cache_indices": torch.arange(ROWS),
        "mamba_track_mask": torch.ones(ROWS, dtype=torch.bool),
        "mamba_track_indices": torch.arange(ROWS) + ROWS,
        "batch_size": ROWS,
    }


if __name__ == "__main__":
    main()
