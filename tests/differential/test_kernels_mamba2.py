"""The Mamba-2 scan and step against SGLang's Triton kernels, and against themselves split anywhere."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the kernels are torch's")

from sglang_marconi.platform.kernels.mamba2 import mamba_chunk_scan_combined, selective_state_update  # noqa: E402

SCAN = "sglang.kernels.ops.mamba.triton_ops.ssd_combined:mamba_chunk_scan_combined"
STEP = "sglang.kernels.ops.mamba.triton_ops.mamba_ssm:selective_state_update"
HEADS, HEAD_DIM, GROUPS, STATE_DIM, CHUNK = 4, 16, 2, 16, 32
TOLERANCE = {torch.float32: 2e-4, torch.bfloat16: 3e-2}


def scan_inputs(tokens: int, dtype: Any) -> dict[str, Any]:
    torch.manual_seed(11)
    return {
        "x": torch.randn(1, tokens, HEADS, HEAD_DIM, dtype=dtype),
        "dt": torch.randn(1, tokens, HEADS, dtype=dtype),
        "A": -torch.rand(HEADS) - 0.05,
        "B": torch.randn(1, tokens, GROUPS, STATE_DIM, dtype=dtype),
        "C": torch.randn(1, tokens, GROUPS, STATE_DIM, dtype=dtype),
        "chunk_size": CHUNK,
        "D": torch.randn(HEADS),
        "dt_bias": torch.randn(HEADS) - 2,
        "dt_softplus": True,
        "state_dtype": torch.float32,
        "return_varlen_states": True,
        "return_track_states": True,
    }


def batch_of(bounds: list[int]) -> dict[str, Any]:
    """How SGLang describes a flat batch: sequence numbers, and the grid's cells cut where sequences meet."""
    lengths = torch.tensor(bounds).diff()
    cells = sorted({*range(0, bounds[-1], CHUNK), *bounds[:-1]})
    return {
        "cu_seqlens": torch.tensor(bounds, dtype=torch.int32),
        "seq_idx": torch.repeat_interleave(torch.arange(len(lengths), dtype=torch.int32), lengths)[None],
        "chunk_indices": torch.tensor([cell // CHUNK for cell in cells], dtype=torch.int32),
        "chunk_offsets": torch.tensor([cell % CHUNK for cell in cells], dtype=torch.int32),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("bounds", [[0, 80], [0, 3, 40, 41, 100]])
def test_scan_of_several_sequences_equals_triton(triton: Any, dtype: Any, resumed: bool, bounds: list[int]) -> None:
    inputs = scan_inputs(bounds[-1], dtype)
    described = batch_of(bounds)
    if not resumed:
        described.update(chunk_indices=None, chunk_offsets=None)
    if resumed or len(bounds) > 2:
        states = torch.randn(len(bounds) - 1, HEADS, HEAD_DIM, STATE_DIM) * (1.0 if resumed else 0.0)
        described.update(batch_of(bounds), initial_states=states)
    last = len(bounds) - 2
    described.update(
        track_seq_idx=torch.tensor([last]), track_end_locs=torch.tensor([bounds[-2] + (bounds[-1] - bounds[-2]) // 2])
    )
    theirs = torch.empty_like(inputs["x"], dtype=torch.float32)
    expected = triton.call(SCAN, **inputs, **described, out=theirs)
    out = torch.empty_like(inputs["x"])
    actual = mamba_chunk_scan_combined(**inputs, **described, out=out)

    tolerance = {"atol": TOLERANCE[dtype], "rtol": TOLERANCE[dtype]}
    torch.testing.assert_close(out.float(), theirs, **tolerance)
    torch.testing.assert_close(actual[1], expected[1], **tolerance)
    torch.testing.assert_close(actual[2], expected[2], **tolerance)
    for cell in range(1, actual[0].shape[1]):
        if cell * CHUNK not in bounds:
            torch.testing.assert_close(actual[0][:, cell], expected[0][:, cell], **tolerance)


@pytest.mark.parametrize("split", [1, 2, 31, 32, 33, 63, 64, 77, 127])
def test_a_resumed_scan_gives_the_same_outputs_and_state(split: int) -> None:
    tokens = 128
    inputs = scan_inputs(tokens, torch.float32)

    def run(begin: int, end: int, state: Any) -> tuple[Any, Any]:
        part = {k: v[:, begin:end] if torch.is_tensor(v) and v.dim() > 1 else v for k, v in inputs.items()}
        out = torch.empty_like(part["x"])
        bounds = torch.tensor([0, end - begin], dtype=torch.int32)
        final = mamba_chunk_scan_combined(**part, cu_seqlens=bounds, initial_states=state, out=out)[1]
        return out, final

    whole, final = run(0, tokens, None)
    head, state = run(0, split, None)
    tail, resumed = run(split, tokens, state)
    torch.testing.assert_close(torch.cat([head, tail], dim=1), whole, atol=2e-6, rtol=2e-6)
    torch.testing.assert_close(resumed, final, atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("chunk", [16, 32, 64, 128, 256])
def test_the_outputs_do_not_depend_on_the_grid(chunk: int) -> None:
    inputs = scan_inputs(200, torch.float32)
    bounds = torch.tensor([0, 130, 200], dtype=torch.int32)
    outs = []
    for size in (CHUNK, chunk):
        out = torch.empty_like(inputs["x"])
        mamba_chunk_scan_combined(**{**inputs, "chunk_size": size}, cu_seqlens=bounds, out=out)
        outs.append(out)
    torch.testing.assert_close(outs[0], outs[1], atol=1e-6, rtol=1e-6)


def step_inputs(rows: int, dtype: Any) -> dict[str, Any]:
    torch.manual_seed(12)
    return {
        "x": torch.randn(rows, HEADS, HEAD_DIM, dtype=dtype),
        "dt": torch.randn(rows, HEADS, dtype=dtype)[..., None].expand(-1, -1, HEAD_DIM),
        "A": (-torch.rand(HEADS) - 0.05)[:, None, None].expand(-1, HEAD_DIM, STATE_DIM),
        "B": torch.randn(rows, GROUPS, STATE_DIM, dtype=dtype),
        "C": torch.randn(rows, GROUPS, STATE_DIM, dtype=dtype),
        "D": torch.randn(HEADS)[:, None].expand(-1, HEAD_DIM),
        "dt_bias": (torch.randn(HEADS) - 2)[:, None].expand(-1, HEAD_DIM),
        "dt_softplus": True,
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_decode_equals_triton_and_skips_padded_rows(triton: Any, dtype: Any) -> None:
    inputs = step_inputs(3, dtype)
    states = torch.randn(5, HEADS, HEAD_DIM, STATE_DIM)
    their_states, theirs = states.clone(), torch.zeros(3, HEADS, HEAD_DIM)
    slots = torch.tensor([4, -1, 1], dtype=torch.int32)
    triton.call(STEP, their_states, **inputs, state_batch_indices=slots, out=theirs)
    out = torch.empty_like(inputs["x"])
    selective_state_update(states, **inputs, state_batch_indices=slots, out=out)
    live = [0, 2]
    torch.testing.assert_close(out[live].float(), theirs[live], atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
    torch.testing.assert_close(states, their_states, atol=1e-5, rtol=1e-5)


def test_decoding_continues_a_scan() -> None:
    inputs = scan_inputs(20, torch.float32)
    out = torch.empty_like(inputs["x"])
    bounds = torch.tensor([0, 20], dtype=torch.int32)
    final = mamba_chunk_scan_combined(**inputs, cu_seqlens=bounds, out=out)[1]
    states = torch.zeros(1, HEADS, HEAD_DIM, STATE_DIM)
    wide = {
        "A": inputs["A"][:, None, None].expand(-1, HEAD_DIM, STATE_DIM),
        "D": inputs["D"][:, None].expand(-1, HEAD_DIM),
        "dt_bias": inputs["dt_bias"][:, None].expand(-1, HEAD_DIM),
        "dt_softplus": True,
    }
    for token in range(20):
        step = {name: inputs[name][:, token] for name in ("x", "B", "C")}
        step["dt"] = inputs["dt"][:, token, :, None].expand(-1, -1, HEAD_DIM)
        y = torch.empty_like(step["x"])
        selective_state_update(states, **step, **wide, state_batch_indices=torch.tensor([0]), out=y)
        torch.testing.assert_close(y[0], out[0, token], atol=2e-6, rtol=2e-6)
    torch.testing.assert_close(states, final, atol=2e-6, rtol=2e-6)


def test_speculative_arguments_are_refused() -> None:
    inputs = step_inputs(1, torch.float32)
    with pytest.raises(NotImplementedError, match="speculative"):
        selective_state_update(torch.zeros(1), **inputs, out=torch.empty(1), disable_state_update=True)
