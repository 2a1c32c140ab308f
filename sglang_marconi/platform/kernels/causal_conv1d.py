"""Short causal depthwise convolution over a flat batch of sequences, with its window kept per state slot."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

PAD_SLOT_ID = -1


def causal_conv1d_fn(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    conv_states: torch.Tensor | None = None,
    query_start_loc: torch.Tensor | None = None,
    seq_lens_cpu: list[int] | None = None,
    cache_indices: torch.Tensor | None = None,
    has_initial_state: torch.Tensor | None = None,
    activation: str | bool | None = "silu",
    pad_slot_id: int = PAD_SLOT_ID,
    **_ignored: Any,
) -> torch.Tensor:
    """Convolve each sequence of a flat batch and leave its last ``width - 1`` inputs in its slot.

    Args:
        x: (channels, tokens), the sequences one after the other.
        weight: (channels, width).
        bias: (channels,) or None.
        conv_states: (slots, channels, >= width - 1), updated in place; the first ``width - 1`` columns count.
        query_start_loc: (sequences + 1,) flat start of each sequence; None for one sequence.
        seq_lens_cpu: unused; the starts say the same.
        cache_indices: (sequences,) slot of each sequence; ``pad_slot_id`` marks one to leave alone (its output is 0).
        has_initial_state: (sequences,) bool, whether the sequence continues the window in its slot.
        activation: "silu", "swish" or True, or None.

    Returns:
        (channels, tokens) in the dtype of ``x``.
    """
    window = weight.shape[1] - 1
    tokens = x.shape[1]
    bounds = [0, tokens] if query_start_loc is None else query_start_loc.tolist()
    sequences = len(bounds) - 1
    slots = list(range(sequences)) if cache_indices is None else cache_indices.tolist()
    resumed = [False] * sequences if has_initial_state is None else has_initial_state.tolist()

    inputs = x.t().float()
    # Before each sequence come the inputs that its window reaches back to, so that one pass serves all sequences.
    pieces: list[torch.Tensor] = []
    kept: list[torch.Tensor] = []
    for index, slot in enumerate(slots[:sequences]):
        past = inputs.new_zeros(window, inputs.shape[1])
        if conv_states is not None and resumed[index] and slot != pad_slot_id:
            past = conv_states[slot, :, :window].t().float()
        pieces += [past, inputs[bounds[index] : bounds[index + 1]]]
        kept.append(torch.arange(bounds[index], bounds[index + 1]) + window * index)
    joined = torch.cat(pieces)
    out = torch.zeros(tokens, inputs.shape[1], dtype=x.dtype)
    out[bounds[0] : bounds[-1]] = _convolve(joined, weight, bias, activation)[torch.cat(kept) - bounds[0]].to(x.dtype)

    end = 0
    for index, slot in enumerate(slots[:sequences]):
        end += window + bounds[index + 1] - bounds[index]
        if slot == pad_slot_id:
            out[bounds[index] : bounds[index + 1]] = 0
        elif conv_states is not None and bounds[index + 1] > bounds[index]:
            conv_states[slot, :, :window] = joined[end - window : end].t().to(conv_states.dtype)
    return out.t()


def causal_conv1d_update(
    x: torch.Tensor,
    conv_state: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | bool | None = None,
    cache_seqlens: torch.Tensor | None = None,
    conv_state_indices: torch.Tensor | None = None,
    num_accept_tokens: torch.Tensor | None = None,
    intermediate_conv_window: torch.Tensor | None = None,
    intermediate_state_indices: torch.Tensor | None = None,
    retrieve_next_token: torch.Tensor | None = None,
    retrieve_next_sibling: torch.Tensor | None = None,
    retrieve_parent_token: torch.Tensor | None = None,
    pad_slot_id: int = PAD_SLOT_ID,
    metadata: object = None,
    validate_data: bool = False,
) -> torch.Tensor:
    """Convolve the next token(s) of each sequence and shift them into its window.

    Args:
        x: (batch, channels) or (batch, channels, tokens).
        conv_state: (slots, channels, >= width - 1), updated in place.
        weight: (channels, width).
        bias: (channels,) or None.
        conv_state_indices: (batch,) slot of each row; ``pad_slot_id`` marks a row to leave alone (its output is 0).

    Raises:
        NotImplementedError: for the arguments of speculative decoding and circular windows.
    """
    speculative = (cache_seqlens, num_accept_tokens, intermediate_conv_window, retrieve_next_token)
    if any(argument is not None for argument in speculative):
        raise NotImplementedError(
            "marconi_cpu: causal_conv1d_update has no speculative decoding; start without --speculative-algorithm"
        )
    window = weight.shape[1] - 1
    rows = x[:, :, None] if x.dim() == 2 else x
    slots = torch.arange(rows.shape[0]) if conv_state_indices is None else conv_state_indices.long()
    live = (slots != pad_slot_id).nonzero()[:, 0]
    slots = slots[live]

    joined = torch.cat([conv_state[slots, :, :window].float(), rows[live].float()], dim=2)
    out = torch.zeros_like(rows)
    convolved = _convolve(joined.permute(2, 0, 1), weight, bias, activation)
    out[live] = convolved.permute(1, 2, 0).to(x.dtype)
    conv_state[slots, :, :window] = joined[:, :, joined.shape[2] - window :].to(conv_state.dtype)
    return out[:, :, 0] if x.dim() == 2 else out


def _convolve(
    inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, activation: str | bool | None
) -> torch.Tensor:
    """Each output from its window, (tokens, ..., channels) to (tokens - width + 1, ..., channels).

    The terms are added in one order everywhere, so an output does not depend on where a sequence was split.
    """
    width = weight.shape[1]
    taps = weight.t().float()
    outputs = inputs.shape[0] - width + 1
    total = inputs[:outputs] * taps[0]
    for tap in range(1, width):
        total = total + inputs[tap : tap + outputs] * taps[tap]
    if bias is not None:
        total = total + bias.float()
    return functional.silu(total) if activation in (True, "silu", "swish") else total
