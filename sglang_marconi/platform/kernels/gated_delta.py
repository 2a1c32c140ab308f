"""Gated delta net: the chunked scan over a flat batch of sequences, and its one-token step.

Per value head the state decays, forgets what the key held and learns the value: with ``S' = exp(g_t) * S_{t-1}``,
``S_t = S' + beta_t * (v_t - S' k_t) k_t^T`` and ``o_t = scale * S_t q_t`` (Yang et al., "Gated Delta Networks",
section 3). States are laid out (slots, value heads, V, K).
"""

from __future__ import annotations

import torch
from torch.nn import functional

from sglang_marconi.platform.kernels.varlen import Pieces, cut_on_grid

# SGLang's tracking reads the state at this grid, counted from each sequence's start.
CHUNK_TOKENS = 64
NORM_EPSILON = 1e-6


def fused_gdn_gating(
    A_log: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    dt_bias: torch.Tensor,
    beta: float = 1.0,
    threshold: float = 20.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log decay and write strength of each token and value head.

    Args:
        A_log, dt_bias: (heads,).
        a, b: (tokens, heads).

    Returns:
        ``(g, beta)``, each (1, tokens, heads) float32.
    """
    g, strength = _gates(A_log, a, b, dt_bias, beta, threshold)
    return g.float()[None], strength.float()[None]


def chunk_gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    initial_state_indices: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    head_first: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    inplace_update: bool = True,
) -> tuple[torch.Tensor, None, torch.Tensor]:
    """Scan every sequence of a flat batch from the state in its slot, and leave the final state there.

    Args:
        q, k: (1, tokens, heads, K); value heads share them group by group.
        v: (1, tokens, value heads, V).
        g, beta: (1, tokens, value heads), log decay and write strength.
        scale: of the query, default ``K ** -0.5``.
        initial_state: (slots, value heads, V, K), updated in place with ``inplace_update``.
        initial_state_indices: (sequences,) slot of each sequence; a negative one starts from zero and keeps nothing.
        cu_seqlens: (sequences + 1,) flat start of each sequence.

    Returns:
        ``(o, None, h)``: outputs like ``v``, and the state before each 64-token chunk of each sequence, one after the
        other, (1, chunks, value heads, V, K) in the dtype of ``k``.

    Raises:
        NotImplementedError: for head-first inputs, or without ``cu_seqlens`` and states; SGLang never calls it so.
    """
    if head_first or cu_seqlens is None or initial_state is None or initial_state_indices is None:
        raise NotImplementedError(
            "marconi_cpu: chunk_gated_delta_rule takes one flat batch with cu_seqlens, initial_state and "
            "initial_state_indices, tokens before heads"
        )
    value_heads = v.shape[2]
    query, key = _prepare(q[0], k[0], value_heads, scale, use_qk_l2norm_in_kernel)
    pieces = cut_on_grid(cu_seqlens.tolist(), CHUNK_TOKENS, aligned_to_batch=False)
    slots = initial_state_indices.tolist()
    start = _read_slots(initial_state, slots)
    o, before, final = _scan(query, key, v[0].double(), g[0].double(), beta[0].double(), pieces, start)

    out = torch.zeros_like(v)
    out[0, int(cu_seqlens[0]) : int(cu_seqlens[-1])] = o[pieces.present].to(v.dtype)
    if inplace_update:
        _write_slots(initial_state, slots, final)
    return out, None, before.to(k.dtype)[None]


def fused_sigmoid_gating_delta_rule_update(
    A_log: torch.Tensor,
    a: torch.Tensor,
    dt_bias: torch.Tensor,
    softplus_beta: float,
    softplus_threshold: float,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    b: torch.Tensor,
    initial_state_source: torch.Tensor,
    initial_state_indices: torch.Tensor,
    scale: float | None = None,
    use_qk_l2norm_in_kernel: bool = False,
    cu_seqlens: torch.Tensor | None = None,
    is_kda: bool = False,
    lower_bound: float | None = None,
    disable_state_update: bool = False,
    intermediate_states_buffer: torch.Tensor | None = None,
    **_ignored: object,
) -> torch.Tensor:
    """Advance the state of each row by one token, in its slot: gates, delta rule and output.

    Args:
        A_log, dt_bias: (value heads,).
        a, b: (rows, value heads).
        q, k: (1, rows, heads, K).
        v: (1, rows, value heads, V).
        initial_state_source: (slots, value heads, V, K), updated in place.
        initial_state_indices: (rows,) slot of each row; a negative one keeps nothing.

    Returns:
        (1, rows, value heads, V) in the dtype of ``q``.

    Raises:
        NotImplementedError: for KDA gates, several tokens a row, and the arguments of speculative decoding.
    """
    rows = v.shape[1]
    if is_kda or disable_state_update or intermediate_states_buffer is not None or len(initial_state_indices) != rows:
        raise NotImplementedError(
            "marconi_cpu: fused_sigmoid_gating_delta_rule_update takes one token a row, without KDA gates and "
            f"without speculative decoding, got {rows} tokens for {len(initial_state_indices)} rows, is_kda={is_kda}"
        )
    query, key = _prepare(q[0], k[0], v.shape[2], scale, use_qk_l2norm_in_kernel)
    g, strength = _gates(A_log, a.reshape(rows, -1), b.reshape(rows, -1), dt_bias, softplus_beta, softplus_threshold)
    return _step(query, key, v[0], g, strength, initial_state_source, initial_state_indices).to(q.dtype)[None]


def fused_recurrent_gated_delta_rule_packed_decode(
    mixed_qkv: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    A_log: torch.Tensor,
    dt_bias: torch.Tensor,
    scale: float,
    initial_state: torch.Tensor,
    out: torch.Tensor,
    ssm_state_indices: torch.Tensor,
    use_qk_l2norm_in_kernel: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Like `fused_sigmoid_gating_delta_rule_update`, from queries, keys and values packed side by side.

    Args:
        mixed_qkv: (rows, 2 * heads * K + value heads * V).
        out: (rows, 1, value heads, V), written in place.
    """
    value_heads, value_dim, key_dim = initial_state.shape[1:]
    values = value_heads * value_dim
    keys = (mixed_qkv.shape[1] - values) // 2
    q, k, v = mixed_qkv.split([keys, keys, values], dim=-1)
    q, k = q.unflatten(-1, (-1, key_dim)), k.unflatten(-1, (-1, key_dim))
    query, key = _prepare(q, k, value_heads, scale, use_qk_l2norm_in_kernel)
    g, strength = _gates(A_log, a, b, dt_bias, 1.0, 20.0)
    v = v.unflatten(-1, (value_heads, value_dim))
    out[:, 0] = _step(query, key, v, g, strength, initial_state, ssm_state_indices).to(out.dtype)
    return out, initial_state


def _gates(
    a_log: torch.Tensor, a: torch.Tensor, b: torch.Tensor, dt_bias: torch.Tensor, beta: float, threshold: float
) -> tuple[torch.Tensor, torch.Tensor]:
    step = functional.softplus(a.double() + dt_bias.double(), beta=beta, threshold=threshold)
    return -torch.exp(a_log.double()) * step, torch.sigmoid(b.double())


def _prepare(
    q: torch.Tensor, k: torch.Tensor, value_heads: int, scale: float | None, normalise: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries (scaled) and keys of each value head, (tokens, value heads, K) in float64."""
    q, k = q.double(), k.double()
    if normalise:
        q, k = (x * torch.rsqrt((x * x).sum(-1, keepdim=True) + NORM_EPSILON) for x in (q, k))
    repeats = value_heads // k.shape[1]
    scale = k.shape[-1] ** -0.5 if scale is None else scale
    return (q * scale).repeat_interleave(repeats, dim=1), k.repeat_interleave(repeats, dim=1)


def _read_slots(states: torch.Tensor, slots: list[int]) -> torch.Tensor:
    read = states.new_zeros(len(slots), *states.shape[1:], dtype=torch.float64)
    for row, slot in enumerate(slots):
        if slot >= 0:
            read[row] = states[slot]
    return read


def _write_slots(states: torch.Tensor, slots: list[int], values: torch.Tensor) -> None:
    for row, slot in enumerate(slots):
        if slot >= 0:
            states[slot] = values[row].to(states.dtype)


def _scan(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    pieces: Pieces,
    start: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Outputs (pieces, size, heads, V), states before each piece and after each sequence (.., heads, V, K).

    Inside a piece the writes solve a triangular system (each sees those before it), so only the states between
    pieces are a loop.
    """
    here = pieces.present[..., None]
    token = pieces.token
    # Heads before places: (pieces, heads, size, ...). A place without a token neither decays nor writes.
    decay = torch.cumsum(g[token] * here, dim=1).transpose(1, 2)
    strength = (beta[token] * here).transpose(1, 2)[..., None]
    q, k, v = (x[token].transpose(1, 2) for x in (query, key, value))
    size = token.shape[1]
    causal = torch.ones(size, size, dtype=torch.bool).tril()
    ratio = torch.exp((decay[..., :, None] - decay[..., None, :]).masked_fill(~causal, float("-inf")))

    seen = strength * (k @ k.transpose(-1, -2)) * ratio
    system = seen.tril(-1) + torch.eye(size, dtype=seen.dtype)
    wanted = torch.cat([strength * v, strength * torch.exp(decay)[..., None] * k], dim=-1)
    solved = torch.linalg.solve_triangular(system, wanted, upper=False, unitriangular=True)
    write, forget = solved.split([v.shape[-1], k.shape[-1]], dim=-1)
    to_end = (torch.exp(decay[..., -1:] - decay)[..., None] * k).transpose(-1, -2)
    total_decay = torch.exp(decay[..., -1])[..., None, None]

    state = start.clone()
    before = state.new_empty(len(pieces.sequence), *state.shape[1:])
    written = torch.empty_like(write)
    for piece, sequence in enumerate(pieces.sequence):
        before[piece] = state[sequence]
        written[piece] = write[piece] - forget[piece] @ state[sequence].transpose(-1, -2)
        state[sequence] = state[sequence] * total_decay[piece] + (to_end[piece] @ written[piece]).transpose(-1, -2)
    carried = (q * torch.exp(decay)[..., None]) @ before.transpose(-1, -2)
    o = carried + ((q @ k.transpose(-1, -2)) * ratio) @ written
    return o.transpose(1, 2), before, state


def _step(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    states: torch.Tensor,
    indices: torch.Tensor,
) -> torch.Tensor:
    """(rows, heads, V) in float64; the states of the live rows advance in place."""
    out = torch.zeros(value.shape, dtype=torch.float64)
    live = (indices >= 0).nonzero()[:, 0]
    slots = indices[live].long()
    k = key[live][..., None]
    state = states[slots].double() * torch.exp(g[live])[..., None, None]
    error = value[live].double()[..., None] - state @ k
    state = state + beta[live][..., None, None] * error @ k.transpose(-1, -2)
    out[live] = (state @ query[live][..., None])[..., 0]
    states[slots] = state.to(states.dtype)
    return out
