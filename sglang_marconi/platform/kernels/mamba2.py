"""Mamba-2: the selective scan over a flat batch of sequences, and its one-token step.

Per head, with decay ``a_t = exp(dt_t * A)``, the state is ``S_t = a_t * S_{t-1} + dt_t * x_t B_t^T`` and the output
``y_t = S_t C_t + D x_t`` (Dao and Gu, "Transformers are SSMs", section 6).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.nn import functional

from sglang_marconi.platform.kernels.varlen import Pieces, cut_on_grid

PAD_SLOT_ID = -1
# Longer pieces waste work on the square of their length, shorter ones on Python's loop over pieces: 4000 tokens took
# 96, 85 and 174 ms with 16, 32 and 64.
MAX_PIECE_TOKENS = 32


class _Scan(NamedTuple):
    """What a scan leaves behind, in float64, to read the state at any token from."""

    pieces: Pieces
    cumulative: torch.Tensor  # (pieces, size, heads): log decay from the piece's start through each token
    inflow: torch.Tensor  # (pieces, size, heads, head dim): dt * x
    b: torch.Tensor  # (pieces, size, heads, state dim)
    before: torch.Tensor  # (pieces, heads, head dim, state dim): state at each piece's start
    final: torch.Tensor  # (sequences, heads, head dim, state dim)


def mamba_chunk_scan_combined(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    chunk_size: int,
    D: torch.Tensor | None = None,
    z: torch.Tensor | None = None,
    dt_bias: torch.Tensor | None = None,
    initial_states: torch.Tensor | None = None,
    seq_idx: torch.Tensor | None = None,
    chunk_indices: torch.Tensor | None = None,
    chunk_offsets: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] = (0.0, float("inf")),
    out: torch.Tensor | None = None,
    return_final_states: bool = False,
    return_varlen_states: bool = False,
    return_intermediate_states: bool = False,
    state_dtype: torch.dtype | None = None,
    return_track_states: bool = False,
    track_seq_idx: torch.Tensor | None = None,
    track_end_locs: torch.Tensor | None = None,
) -> Any:
    """Scan every sequence of a flat batch, write the outputs to ``out`` and return the states asked for.

    Args:
        x: (1, tokens, heads, head dim).
        dt: (1, tokens, heads).
        A: (heads,), negative.
        B, C: (1, tokens, groups, state dim); the heads of a group share them.
        chunk_size: tokens per cell of the grid on which intermediate states are returned.
        D: (heads,) or (heads, head dim) or None.
        z: like ``x``, gate of the output, or None.
        initial_states: (sequences, heads, head dim, state dim) or None for zeros.
        cu_seqlens: (sequences + 1,) flat start of each sequence.
        out: like ``x``, written in place.
        track_seq_idx, track_end_locs: (tracked,) sequence, and flat position before which its state is wanted.

    Returns:
        With ``return_track_states``: (states, varlen_states, track_states). ``states`` is (1, cells, heads, head dim,
        state dim), the state before each grid cell; ``varlen_states`` (sequences, ...) the state after each sequence;
        ``track_states`` (1, tracked, ...) or None. Otherwise the subset that the other flags name, as in SGLang.

    Raises:
        NotImplementedError: for more than one row, or without ``cu_seqlens``; no model of SGLang calls it so.
    """
    if x.shape[0] != 1 or cu_seqlens is None or out is None:
        raise NotImplementedError(
            "marconi_cpu: mamba_chunk_scan_combined takes one flat batch (x.shape[0] == 1) with cu_seqlens and out, "
            f"got x.shape={tuple(x.shape)}, cu_seqlens={'given' if cu_seqlens is not None else None}"
        )
    heads = x.shape[2]
    step = _step_sizes(dt[0], dt_bias, dt_softplus, dt_limit)
    pieces = cut_on_grid(cu_seqlens.tolist(), min(chunk_size, MAX_PIECE_TOKENS), aligned_to_batch=True)
    scan = _scan(x[0], step, A, B[0], pieces, initial_states)
    y = _outputs(scan, _per_head(C[0], heads)[pieces.token])
    _write_outputs(out[0], y[pieces.present], x[0], D, None if z is None else z[0], cu_seqlens)

    dtype = state_dtype if state_dtype is not None else C.dtype
    states = _states_on_grid(scan, x.shape[1], chunk_size).to(dtype)[None]
    final = scan.final.to(dtype)
    if return_track_states:
        return states, final, _tracked_states(scan, track_seq_idx, track_end_locs, dtype)
    wanted = [
        value
        for value, is_wanted in (
            (states, return_intermediate_states),
            (final, return_final_states),
            (final, return_varlen_states),
        )
        if is_wanted
    ]
    if not wanted:
        return None
    return wanted[0] if len(wanted) == 1 else tuple(wanted)


def selective_state_update(
    state: torch.Tensor,
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None = None,
    z: torch.Tensor | None = None,
    dt_bias: torch.Tensor | None = None,
    dt_softplus: bool = False,
    state_batch_indices: torch.Tensor | None = None,
    pad_slot_id: int = PAD_SLOT_ID,
    out: torch.Tensor | None = None,
    disable_state_update: bool = False,
    intermediate_states_buffer: torch.Tensor | None = None,
    cache_steps: int | None = None,
    retrieve_parent_token: torch.Tensor | None = None,
    intermediate_state_indices: torch.Tensor | None = None,
    **_ignored: Any,
) -> None:
    """Advance the state of each row by one token, in its slot, and write the output to ``out``.

    Args:
        state: (slots, heads, head dim, state dim), updated in place.
        x, dt, z, out: (rows, heads, head dim).
        A: (heads, head dim, state dim), negative.
        B, C: (rows, groups, state dim).
        D, dt_bias: (heads, head dim) or None.
        state_batch_indices: (rows,) slot of each row; ``pad_slot_id`` marks a row to leave alone (its output is 0).

    Raises:
        NotImplementedError: for the arguments of speculative decoding.
    """
    if disable_state_update or intermediate_states_buffer is not None or x.dim() != 3 or out is None:
        raise NotImplementedError(
            "marconi_cpu: selective_state_update takes one token a row and has no speculative decoding, "
            f"got x.shape={tuple(x.shape)}; start without --speculative-algorithm"
        )
    slots = torch.arange(x.shape[0]) if state_batch_indices is None else state_batch_indices.long()
    live = (slots != pad_slot_id).nonzero()[:, 0]
    slots = slots[live]
    heads = x.shape[1]
    inputs = x[live].double()
    step = dt[live].double()
    if dt_bias is not None:
        step = step + dt_bias
    if dt_softplus:
        step = functional.softplus(step)
    b = _per_head(B[live].double(), heads)
    c = _per_head(C[live].double(), heads)
    after = state[slots].double() * torch.exp(step[..., None] * A) + (step * inputs)[..., None] * b[:, :, None, :]
    y = (after @ c[..., None])[..., 0]
    if D is not None:
        y = y + inputs * D
    if z is not None:
        y = y * functional.silu(z[live].double())
    state[slots] = after.to(state.dtype)
    out.zero_()
    out[live] = y.to(out.dtype)


def _per_head(grouped: torch.Tensor, heads: int) -> torch.Tensor:
    """(tokens, groups, n) to (tokens, heads, n): the heads of a group share its row."""
    return grouped.repeat_interleave(heads // grouped.shape[1], dim=1)


def _step_sizes(
    dt: torch.Tensor, bias: torch.Tensor | None, softplus: bool, limit: tuple[float, float]
) -> torch.Tensor:
    step = dt.double()
    if bias is not None:
        step = step + bias.double()
    if softplus:
        step = functional.softplus(step)
    return step.clamp(*limit)


def _scan(
    x: torch.Tensor,
    step: torch.Tensor,
    decay_rate: torch.Tensor,
    b: torch.Tensor,
    pieces: Pieces,
    initial_states: torch.Tensor | None,
) -> _Scan:
    # A place without a token gets a step of 0: it neither decays the state nor adds to it.
    step = step[pieces.token] * pieces.present[..., None]
    cumulative = torch.cumsum(step * decay_rate.double(), dim=1)
    inflow = x.double()[pieces.token] * step[..., None]
    b = _per_head(b.double(), x.shape[1])[pieces.token]
    to_end = torch.exp(cumulative[:, -1:] - cumulative)
    added = torch.einsum("cqhp,cqhn->chpn", inflow * to_end[..., None], b)
    decay = torch.exp(cumulative[:, -1])[..., None, None]

    sequences = len(pieces.first) - 1
    final = added.new_zeros(sequences, *added.shape[1:])
    if initial_states is not None:
        final.copy_(initial_states)
    before = torch.empty_like(added)
    for piece, sequence in enumerate(pieces.sequence):
        before[piece] = final[sequence]
        final[sequence] = final[sequence] * decay[piece] + added[piece]
    return _Scan(pieces, cumulative, inflow, b, before, final)


def _outputs(scan: _Scan, c: torch.Tensor) -> torch.Tensor:
    """(pieces, size, heads, head dim) from what each piece adds itself and from the state before it."""
    c = c.double()
    log_decay = scan.cumulative.transpose(1, 2)
    between = log_decay[..., :, None] - log_decay[..., None, :]
    size = between.shape[-1]
    causal = torch.ones(size, size, dtype=torch.bool).tril()
    weights = torch.exp(between.masked_fill(~causal, float("-inf")))
    scores = torch.einsum("cqhn,ckhn->chqk", c, scan.b) * weights
    inside = torch.einsum("chqk,ckhp->cqhp", scores, scan.inflow)
    carried = torch.einsum("cqhn,chpn->cqhp", c, scan.before) * torch.exp(scan.cumulative)[..., None]
    return inside + carried


def _write_outputs(
    out: torch.Tensor,
    y: torch.Tensor,
    x: torch.Tensor,
    skip: torch.Tensor | None,
    gate: torch.Tensor | None,
    cu_seqlens: torch.Tensor,
) -> None:
    tokens = slice(int(cu_seqlens[0]), int(cu_seqlens[-1]))
    if skip is not None:
        y = y + x[tokens].double() * (skip[:, None] if skip.dim() == 1 else skip)
    if gate is not None:
        y = y * functional.silu(gate[tokens].double())
    out[tokens] = y.to(out.dtype)


def _states_on_grid(scan: _Scan, tokens: int, chunk_size: int) -> torch.Tensor:
    """(cells, heads, head dim, state dim): the state before each cell, of the sequence that the cell starts with."""
    cells = -(-tokens // chunk_size)
    states = scan.before.new_zeros(cells, *scan.before.shape[1:])
    # Last first: where several sequences share a cell, the one that reaches over its start wins.
    for piece in reversed(range(len(scan.pieces.start))):
        if scan.pieces.start[piece] % chunk_size == 0:
            states[scan.pieces.start[piece] // chunk_size] = scan.before[piece]
    return states


def _tracked_states(
    scan: _Scan, sequences: torch.Tensor | None, ends: torch.Tensor | None, dtype: torch.dtype
) -> torch.Tensor | None:
    """(1, tracked, heads, head dim, state dim): the state of a sequence before a flat position."""
    if sequences is None or ends is None or ends.numel() == 0:
        return None
    states = [_state_before(scan, s, e) for s, e in zip(sequences.tolist(), ends.tolist(), strict=True)]
    return torch.stack(states).to(dtype)[None]


def _state_before(scan: _Scan, sequence: int, end: int) -> torch.Tensor:
    first, stop = scan.pieces.first[sequence], scan.pieces.first[sequence + 1]
    size = scan.pieces.token.shape[1]
    piece = first + (end - scan.pieces.start[first]) // size
    if piece == stop:
        return scan.final[sequence]
    offset = end - scan.pieces.start[piece]
    if offset == 0:
        return scan.before[piece]
    cumulative = scan.cumulative[piece, :offset]
    inflow = scan.inflow[piece, :offset] * torch.exp(cumulative[-1] - cumulative)[..., None]
    added = torch.einsum("qhp,qhn->hpn", inflow, scan.b[piece, :offset])
    return scan.before[piece] * torch.exp(cumulative[-1])[:, None, None] + added
