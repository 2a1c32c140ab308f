"""Short convolutions against SGLang's Triton kernels, and against themselves split anywhere."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the kernels are torch's")

from sglang_marconi.platform.kernels.causal_conv1d import causal_conv1d_fn, causal_conv1d_update  # noqa: E402

MODULE = "sglang.kernels.ops.mamba.causal_conv1d_triton"
CHANNELS, WIDTH, SLOTS = 24, 4, 6
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def weights(dtype: Any) -> tuple[Any, Any, Any]:
    torch.manual_seed(3)
    states = torch.randn(SLOTS, CHANNELS, WIDTH - 1, dtype=dtype)
    return torch.randn(CHANNELS, WIDTH, dtype=dtype), torch.randn(CHANNELS, dtype=dtype), states


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("activation", ["silu", None])
def test_prefill_of_several_sequences_equals_triton(triton: Any, dtype: Any, activation: str | None) -> None:
    weight, bias, states = weights(dtype)
    lengths = [1, 9, 2, 17]
    x = torch.randn(CHANNELS, sum(lengths), dtype=dtype)
    arguments = {
        "query_start_loc": torch.tensor([0, 1, 10, 12, 29], dtype=torch.int32),
        "seq_lens_cpu": lengths,
        "cache_indices": torch.tensor([4, 0, 5, 2], dtype=torch.int32),
        "has_initial_state": torch.tensor([True, False, True, True]),
        "activation": activation,
    }
    their_states = states.clone()
    expected = triton.call(f"{MODULE}:causal_conv1d_fn", x, weight, bias, conv_states=their_states, **arguments)
    out = causal_conv1d_fn(x, weight, bias, conv_states=states, **arguments)
    torch.testing.assert_close(out.float(), expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
    torch.testing.assert_close(states, their_states, atol=0, rtol=0)


def test_prefill_leaves_the_slot_of_a_padded_sequence_alone(triton: Any) -> None:
    weight, bias, states = weights(torch.float32)
    x = torch.randn(CHANNELS, 8)
    arguments = {
        "query_start_loc": torch.tensor([0, 5, 8], dtype=torch.int32),
        "seq_lens_cpu": [5, 3],
        "cache_indices": torch.tensor([1, -1], dtype=torch.int32),
        "has_initial_state": torch.tensor([True, True]),
    }
    their_states = states.clone()
    expected = triton.call(f"{MODULE}:causal_conv1d_fn", x, weight, bias, conv_states=their_states, **arguments)
    out = causal_conv1d_fn(x, weight, bias, conv_states=states, **arguments)
    torch.testing.assert_close(out[:, :5], expected[:, :5], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(states, their_states, atol=0, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_decode_equals_triton_and_skips_padded_rows(triton: Any, dtype: Any) -> None:
    weight, bias, states = weights(dtype)
    x = torch.randn(3, CHANNELS, dtype=dtype)
    indices = torch.tensor([5, -1, 0], dtype=torch.int32)
    their_states = states.clone()
    seam = f"{MODULE}:causal_conv1d_update"
    expected = triton.call(seam, x, their_states, weight, bias, "silu", conv_state_indices=indices)
    out = causal_conv1d_update(x, states, weight, bias, "silu", conv_state_indices=indices)
    live = [0, 2]
    torch.testing.assert_close(out[live].float(), expected[live], atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
    torch.testing.assert_close(states, their_states, atol=0, rtol=0)


@pytest.mark.parametrize("split", [1, 2, 3, 7, 63, 64, 65, 99])
def test_a_resumed_window_gives_the_same_outputs(split: int) -> None:
    weight, bias, states = weights(torch.float32)
    x = torch.randn(CHANNELS, 100)

    def run(part: Any, resumed: bool) -> Any:
        bounds = torch.tensor([0, part.shape[1]], dtype=torch.int32)
        slot = torch.tensor([2], dtype=torch.int32)
        known = torch.tensor([resumed])
        return causal_conv1d_fn(part, weight, bias, states, bounds, None, slot, known)

    whole = run(x, False)
    parts = [run(x[:, :split], False), run(x[:, split:], True)]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-6, rtol=1e-6)


def test_decoding_continues_a_prefill() -> None:
    weight, bias, states = weights(torch.float32)
    x = torch.randn(CHANNELS, 12)
    slot = torch.tensor([3], dtype=torch.int32)
    whole = causal_conv1d_fn(x, weight, bias, None, activation="silu")
    causal_conv1d_fn(x[:, :6], weight, bias, states, torch.tensor([0, 6]), None, slot, torch.tensor([False]))
    for token in range(6, 12):
        out = causal_conv1d_update(x[:, token][None], states, weight, bias, "silu", conv_state_indices=slot)
        torch.testing.assert_close(out[0], whole[:, token], atol=1e-6, rtol=1e-6)


def test_speculative_arguments_are_refused() -> None:
    weight, bias, states = weights(torch.float32)
    with pytest.raises(NotImplementedError, match="speculative"):
        causal_conv1d_update(torch.randn(1, CHANNELS), states, weight, bias, num_accept_tokens=torch.tensor([1]))
