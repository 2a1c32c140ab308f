"""Gated norms, output gates, projections and copies of states against SGLang's Triton kernels."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the kernels are torch's")

from sglang_marconi.platform.kernels import gated_norm, gates, projections, state_slots  # noqa: E402

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
LAYERNORM = "sglang.kernels.ops.attention.fla.layernorm_gated:rms_norm_gated"
ELEMENTWISE = "sglang.kernels.ops.elementwise.elementwise"
PROJECTIONS = "sglang.kernels.ops.attention.triton_gdn_fused_proj"
SCATTER = "sglang.kernels.ops.mamba.mamba_state_scatter_triton"

both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def assert_equal(actual: Any, expected: Any, dtype: Any) -> None:
    torch.testing.assert_close(actual.float(), expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@both_dtypes
@pytest.mark.parametrize("group_size", [None, 16])
@pytest.mark.parametrize("norm_before_gate", [False, True])
@pytest.mark.parametrize("is_rms_norm", [False, True])
def test_norm_with_a_gate_equals_triton(
    triton: Any, dtype: Any, group_size: int | None, norm_before_gate: bool, is_rms_norm: bool
) -> None:
    torch.manual_seed(1)
    inputs = {"x": torch.randn(5, 32, dtype=dtype), "z": torch.randn(5, 32, dtype=dtype)}
    inputs.update(weight=torch.randn(32, dtype=dtype), bias=None if is_rms_norm else torch.randn(32, dtype=dtype))
    options = {"group_size": group_size, "norm_before_gate": norm_before_gate, "is_rms_norm": is_rms_norm}
    expected = triton.call(LAYERNORM, **inputs, **options)
    assert_equal(gated_norm.rms_norm_gated(**inputs, **options), expected, dtype)


@both_dtypes
@pytest.mark.parametrize("activation", ["silu", "sigmoid"])
def test_norm_of_a_gated_delta_net_equals_triton(triton: Any, dtype: Any, activation: str) -> None:
    """Held to the other gated norm: the interpreter misreads the block pointers of this one's own kernel."""
    torch.manual_seed(2)
    x, g = torch.randn(6, 16, dtype=dtype), torch.randn(6, 16, dtype=dtype)
    weight = torch.randn(16, dtype=dtype)
    inputs = {"x": x, "z": g, "weight": weight, "bias": None}
    expected = triton.call(LAYERNORM, **inputs, is_rms_norm=True, activation=activation)
    assert_equal(gated_norm.fused_rms_norm_gated(x, g, weight, None, activation), expected, dtype)


@both_dtypes
def test_norm_of_a_gated_delta_net_equals_transformers(dtype: Any) -> None:
    reference = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")
    torch.manual_seed(2)
    x, g = torch.randn(6, 16, dtype=dtype), torch.randn(6, 16, dtype=dtype)
    norm = reference.Qwen3NextRMSNormGated(16, eps=1e-6)
    with torch.no_grad():
        norm.weight.copy_(torch.randn(16))
        expected = norm(x, g).float()
        assert_equal(gated_norm.fused_rms_norm_gated(x, g, norm.weight, None, "silu"), expected, dtype)


def test_norm_with_a_residual_is_refused() -> None:
    x = torch.ones(1, 4)
    with pytest.raises(NotImplementedError, match="residual"):
        gated_norm.fused_rms_norm_gated(x, x, torch.ones(4), None, residual=x)


@both_dtypes
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("by_head", [False, True])
def test_attention_gate_equals_triton(triton: Any, dtype: Any, inplace: bool, by_head: bool) -> None:
    torch.manual_seed(3)
    output = torch.randn(4, 32, dtype=dtype)
    gate = torch.randn(4, 2, 32, dtype=dtype)[:, :, :16] if by_head else torch.randn(4, 32, dtype=dtype)
    expected = triton.call(f"{ELEMENTWISE}:fused_sigmoid_mul", output.clone(), gate, inplace)
    actual = gates.fused_sigmoid_mul(output, gate, inplace)
    assert_equal(actual, expected, dtype)
    assert (actual is output) == inplace


@both_dtypes
def test_shared_expert_gates_equal_triton(triton: Any, dtype: Any) -> None:
    torch.manual_seed(4)
    hidden, shared, routed = torch.randn(3, 5, 32, dtype=dtype)
    weight = torch.randn(32, dtype=dtype)
    expected = triton.call(f"{ELEMENTWISE}:fused_gate_sigmoid_mul", hidden, weight, shared)
    assert_equal(gates.fused_gate_sigmoid_mul(hidden, weight, shared), expected, dtype)
    theirs = routed.float()
    triton.call(f"{ELEMENTWISE}:fused_gate_sigmoid_mul_add", hidden, weight, shared, theirs)
    gates.fused_gate_sigmoid_mul_add(hidden, weight, shared, routed)
    assert_equal(routed, theirs, dtype)
    gate = torch.randn(5, 1, dtype=dtype)
    expected = triton.call(f"{ELEMENTWISE}:sigmoid_gate_mul_broadcast", shared, gate)
    assert_equal(gates.sigmoid_gate_mul_broadcast(shared, gate), expected, dtype)


@pytest.mark.parametrize("name", ["fused_qkvzba_split_reshape_cat", "fused_qkvzba_split_reshape_cat_contiguous"])
@pytest.mark.parametrize("value_heads", [2, 4])
def test_projection_comes_apart_as_in_triton(triton: Any, name: str, value_heads: int) -> None:
    torch.manual_seed(5)
    key_heads, key_dim, value_dim, tokens = 2, 16, 16, 3
    mixed = torch.randn(tokens, 2 * key_heads * key_dim + 2 * value_heads * value_dim)
    gates_of_heads = torch.randn(tokens, 2 * value_heads)
    arguments = (mixed, gates_of_heads, key_heads, value_heads, key_dim, value_dim)
    expected = triton.call(f"{PROJECTIONS}:{name}", *arguments)
    for mine, theirs in zip(getattr(projections, name)(*arguments), expected, strict=True):
        torch.testing.assert_close(mine, theirs, atol=0, rtol=0)


@pytest.mark.parametrize("check_freed_slots", [False, True])
def test_tracked_states_are_copied_as_in_triton(triton: Any, check_freed_slots: bool) -> None:
    torch.manual_seed(6)
    layers, slots = 3, 8
    conv, states = torch.randn(layers, slots, 6, 3), torch.randn(layers, slots, 4, 5, 2)
    source = torch.tensor([1, 4, 6, 7])
    target = torch.tensor([2, -1, 3, 5]) if check_freed_slots else torch.tensor([2, 0, 3, 5])
    mask = torch.tensor([True, True, False, True])
    their_conv, their_states = conv.clone(), states.clone()
    triton.call(
        f"{SCATTER}:track_mamba_states_all_layers", their_conv, their_states, source, mask, target, 4, check_freed_slots
    )
    one_conv, one_states = conv[0].clone(), states[0].clone()
    state_slots.track_mamba_states_all_layers(conv, states, source, mask, target, 4, check_freed_slots)
    torch.testing.assert_close(conv, their_conv, atol=0, rtol=0)
    torch.testing.assert_close(states, their_states, atol=0, rtol=0)
    state_slots.track_mamba_states_if_needed(one_conv, one_states, source, mask, target, 4, check_freed_slots)
    torch.testing.assert_close(one_conv, conv[0], atol=0, rtol=0)
    torch.testing.assert_close(one_states, states[0], atol=0, rtol=0)
