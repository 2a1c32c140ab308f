"""Copies of recurrent states between slots: what `extra_buffer` keeps while it decodes."""

from __future__ import annotations

import torch


def track_mamba_states_if_needed(
    conv_states: torch.Tensor,
    ssm_states: torch.Tensor,
    cache_indices: torch.Tensor,
    mamba_track_mask: torch.Tensor,
    mamba_track_indices: torch.Tensor,
    batch_size: int,
    check_freed_slots: bool = False,
) -> None:
    """Copy one layer's states of the marked rows from their slot to their track slot.

    Args:
        conv_states, ssm_states: (slots, ...), updated in place.
        cache_indices, mamba_track_indices: (batch,) slot to read and slot to write.
        mamba_track_mask: (batch,) bool, the rows to copy.
        check_freed_slots: leave out rows where either slot is -1 (freed).
    """
    track_mamba_states_all_layers(
        conv_states[None],
        ssm_states[None],
        cache_indices,
        mamba_track_mask,
        mamba_track_indices,
        batch_size,
        check_freed_slots,
    )


def track_mamba_states_all_layers(
    conv_states_pool: torch.Tensor,
    ssm_states_pool: torch.Tensor,
    cache_indices: torch.Tensor,
    mamba_track_mask: torch.Tensor,
    mamba_track_indices: torch.Tensor,
    batch_size: int,
    check_freed_slots: bool = False,
) -> None:
    """Like `track_mamba_states_if_needed`, for pools of (layers, slots, ...)."""
    rows = mamba_track_mask[:batch_size].nonzero()[:, 0]
    source, target = cache_indices[rows].long(), mamba_track_indices[rows].long()
    if check_freed_slots:
        both_live = (source >= 0) & (target >= 0)
        source, target = source[both_live], target[both_live]
    if source.numel() == 0:
        return
    conv_states_pool[:, target] = conv_states_pool[:, source]
    ssm_states_pool[:, target] = ssm_states_pool[:, source]
