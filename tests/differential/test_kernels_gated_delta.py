"""The gated delta net against transformers' reference and SGLang's Triton kernels, and against itself split anywhere.

The chunked Triton kernel refuses float32 and fails in the interpreter, so the scan is held to transformers' own.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the kernels are torch's")
reference = pytest.importorskip(
    "transformers.models.qwen3_next.modeling_qwen3_next", reason="the reference is transformers'"
)

from sglang_marconi.platform.kernels import gated_delta  # noqa: E402

HEADS, VALUE_HEADS, KEY_DIM, VALUE_DIM = 2, 4, 16, 16
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2}
PACKED = "sglang.kernels.ops.attention.fla.fused_recurrent:fused_recurrent_gated_delta_rule_packed_decode"
GATED = "sglang.kernels.ops.attention.linear.fused_sigmoid_gating_recurrent:fused_sigmoid_gating_delta_rule_update"
GATING = "sglang.kernels.ops.attention.linear.fused_gdn_gating:fused_gdn_gating"


def scan_inputs(tokens: int, dtype: Any) -> dict[str, Any]:
    torch.manual_seed(21)
    return {
        "q": torch.randn(1, tokens, HEADS, KEY_DIM, dtype=dtype),
        "k": torch.randn(1, tokens, HEADS, KEY_DIM, dtype=dtype),
        "v": torch.randn(1, tokens, VALUE_HEADS, VALUE_DIM, dtype=dtype),
        "g": -torch.rand(1, tokens, VALUE_HEADS) * 0.3,
        "beta": torch.rand(1, tokens, VALUE_HEADS),
    }


def transformers_scan(inputs: dict[str, Any], begin: int, end: int, state: Any) -> tuple[Any, Any]:
    """Outputs (tokens, value heads, V) and final state (value heads, V, K) of one sequence, token by token."""
    part = {name: value[:, begin:end].float() for name, value in inputs.items()}
    for name in ("q", "k"):
        part[name] = part[name].repeat_interleave(VALUE_HEADS // HEADS, dim=2)
    out, final = reference.torch_recurrent_gated_delta_rule(
        part["q"],
        part["k"],
        part["v"],
        part["g"],
        part["beta"],
        initial_state=state.transpose(-1, -2)[None],
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
    )
    return out[0], final[0].transpose(-1, -2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("bounds", [[0, 150], [0, 1, 65, 129, 200]])
def test_scan_of_several_sequences_equals_transformers(dtype: Any, resumed: bool, bounds: list[int]) -> None:
    inputs = scan_inputs(bounds[-1], dtype)
    states = torch.randn(6, VALUE_HEADS, VALUE_DIM, KEY_DIM) * (1.0 if resumed else 0.0)
    slots = torch.tensor([4, 0, 5, 2][: len(bounds) - 1], dtype=torch.int32)
    before = states.clone()
    out, _, chunks = gated_delta.chunk_gated_delta_rule(
        **inputs,
        initial_state=states,
        initial_state_indices=slots,
        cu_seqlens=torch.tensor(bounds, dtype=torch.int32),
        use_qk_l2norm_in_kernel=True,
    )
    tolerance = {"atol": TOLERANCE[dtype], "rtol": TOLERANCE[dtype]}
    seen = 0
    for begin, end, slot in zip(bounds[:-1], bounds[1:], slots.tolist(), strict=True):
        expected, final = transformers_scan(inputs, begin, end, before[slot])
        torch.testing.assert_close(out[0, begin:end].float(), expected, **tolerance)
        torch.testing.assert_close(states[slot], final, atol=2e-5, rtol=2e-5)
        for offset in range(0, end - begin, gated_delta.CHUNK_TOKENS):
            state = transformers_scan(inputs, begin, begin + offset, before[slot])[1] if offset else before[slot]
            torch.testing.assert_close(chunks[0, seen].float(), state, **tolerance)
            seen += 1
    assert chunks.shape[1] == seen
    torch.testing.assert_close(states[[1, 3]], before[[1, 3]], atol=0, rtol=0)


@pytest.mark.parametrize("split", [1, 2, 63, 64, 65, 100, 127])
def test_a_resumed_scan_gives_the_same_outputs_and_state(split: int) -> None:
    tokens = 128
    inputs = scan_inputs(tokens, torch.float32)

    def run(begin: int, end: int, states: Any) -> Any:
        part = {name: value[:, begin:end] for name, value in inputs.items()}
        bounds = torch.tensor([0, end - begin], dtype=torch.int32)
        slot = torch.tensor([0], dtype=torch.int32)
        return gated_delta.chunk_gated_delta_rule(
            **part,
            initial_state=states,
            initial_state_indices=slot,
            cu_seqlens=bounds,
            use_qk_l2norm_in_kernel=True,
        )[0]

    once, twice = torch.zeros(2, 1, VALUE_HEADS, VALUE_DIM, KEY_DIM)
    whole = run(0, tokens, once)
    parts = torch.cat([run(0, split, twice), run(split, tokens, twice)], dim=1)
    torch.testing.assert_close(parts, whole, atol=2e-6, rtol=2e-6)
    torch.testing.assert_close(twice, once, atol=2e-6, rtol=2e-6)


def step_inputs(rows: int, dtype: Any) -> dict[str, Any]:
    torch.manual_seed(22)
    return {
        "a": torch.randn(rows, VALUE_HEADS, dtype=dtype),
        "b": torch.randn(rows, VALUE_HEADS, dtype=dtype),
        "A_log": torch.randn(VALUE_HEADS),
        "dt_bias": torch.randn(VALUE_HEADS),
        "use_qk_l2norm_in_kernel": True,
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_packed_decode_equals_triton_and_skips_padded_rows(triton: Any, dtype: Any) -> None:
    inputs = step_inputs(3, dtype)
    packed = torch.randn(3, 2 * HEADS * KEY_DIM + VALUE_HEADS * VALUE_DIM, dtype=dtype)
    states = torch.randn(5, VALUE_HEADS, VALUE_DIM, KEY_DIM)
    slots = torch.tensor([3, -1, 0], dtype=torch.int32)
    their_states, theirs = states.clone(), torch.empty(3, 1, VALUE_HEADS, VALUE_DIM)
    shared = {**inputs, "scale": KEY_DIM**-0.5, "ssm_state_indices": slots}
    triton.call(PACKED, packed, **shared, initial_state=their_states, out=theirs)
    out = torch.empty(3, 1, VALUE_HEADS, VALUE_DIM, dtype=dtype)
    gated_delta.fused_recurrent_gated_delta_rule_packed_decode(packed, **shared, initial_state=states, out=out)
    torch.testing.assert_close(out.float(), theirs, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
    torch.testing.assert_close(states, their_states, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gated_decode_equals_triton(triton: Any, dtype: Any) -> None:
    rows = 3
    scan = scan_inputs(rows, dtype)
    inputs = {**step_inputs(rows, dtype), "q": scan["q"], "k": scan["k"], "v": scan["v"]}
    inputs.update(softplus_beta=1.0, softplus_threshold=20.0, cu_seqlens=torch.arange(rows + 1, dtype=torch.int32))
    states = torch.randn(5, VALUE_HEADS, VALUE_DIM, KEY_DIM)
    slots = torch.tensor([3, 4, 0], dtype=torch.int32)
    their_states = states.clone()
    expected = triton.call(GATED, **inputs, initial_state_source=their_states, initial_state_indices=slots)
    out = gated_delta.fused_sigmoid_gating_delta_rule_update(
        **inputs, initial_state_source=states, initial_state_indices=slots
    )
    torch.testing.assert_close(out.float(), expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
    torch.testing.assert_close(states, their_states, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gates_equal_triton(triton: Any, dtype: Any) -> None:
    inputs = step_inputs(5, dtype)
    arguments = (inputs["A_log"], inputs["a"], inputs["b"], inputs["dt_bias"])
    expected = triton.call(GATING, *arguments)
    actual = gated_delta.fused_gdn_gating(*arguments)
    torch.testing.assert_close(actual[0], expected[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(actual[1], expected[1], atol=1e-5, rtol=1e-5)


def test_decoding_continues_a_scan() -> None:
    tokens = 70
    inputs = scan_inputs(tokens, torch.float32)
    gates = step_inputs(tokens, torch.float32)
    names = ("A_log", "a", "b", "dt_bias")
    inputs["g"], inputs["beta"] = gated_delta.fused_gdn_gating(*(gates[name] for name in names))
    scanned, stepped = torch.zeros(2, 1, VALUE_HEADS, VALUE_DIM, KEY_DIM)
    slot = torch.tensor([0], dtype=torch.int32)
    out = gated_delta.chunk_gated_delta_rule(
        **inputs,
        initial_state=scanned,
        initial_state_indices=slot,
        cu_seqlens=torch.tensor([0, tokens]),
        use_qk_l2norm_in_kernel=True,
    )[0]
    for token in range(tokens):
        y = gated_delta.fused_sigmoid_gating_delta_rule_update(
            gates["A_log"],
            gates["a"][token : token + 1],
            gates["dt_bias"],
            1.0,
            20.0,
            *(inputs[name][:, token : token + 1] for name in ("q", "k", "v")),
            gates["b"][token : token + 1],
            stepped,
            slot,
            use_qk_l2norm_in_kernel=True,
        )
        torch.testing.assert_close(y[0, 0], out[0, token], atol=5e-6, rtol=5e-6)
    torch.testing.assert_close(stepped, scanned, atol=5e-6, rtol=5e-6)
