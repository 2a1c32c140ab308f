"""The state after a finished request's last token, taken from the slot that the request decoded in.

With ``extra_buffer`` SGLang keys a finished request by the last state that it tracked, up to
``--mamba-track-interval`` (256) tokens back. The live state is exact: it stands after
``kv_committed_len`` tokens, because that length grows when a step is prepared and the step is then
launched in the same turn of the scheduler's loop.

- Overlap, stopped by a token or a string: the next step ran already, so the state and the KV
  include the stop token.
- Stopped by length (SGLang leaves such a request out of the next step), or no overlap: both end
  one token before the last.

Handing the slot over needs no copy and no wait on a GPU. The step that writes it was launched on the
forward stream before the result that finished the request was processed, and everything that can
touch the slot later (a copy for a hit, clearing it after an eviction) is launched on that stream too.
"""

from __future__ import annotations

from typing import Any

#: SGLang's finish reason after replacing an id outside the vocabulary by the end token in ``output_ids``.
_REPLACED_TOKEN = "NaN happened"


def live_state_is_at(req: Any, num_tokens: int, page_size: int) -> bool:
    """Whether the finished request's live state is the one after its first ``num_tokens`` tokens, and can be keyed.

    It is not when SGLang asks for a shorter key (``--strip-thinking-cache``), when the last token is not the one
    that ran, or off a page's end: keys are whole pages.
    """
    if getattr(req.finished_reason, "matched", None) == _REPLACED_TOKEN:
        return False
    return num_tokens == req.kv.kv_committed_len and num_tokens % page_size == 0


def track_live_state(pool: Any, req: Any) -> None:
    """Make the live state the request's latest tracked one, which SGLang gives to the tree; swaps two slots.

    The step in flight has its slots already: those to track in were gathered when it was prepared, and the
    live ones come from a mapping that this does not change.

    Args:
        pool: SGLang's ``HybridReqToTokenPool`` with an extra buffer.
    """
    latest = pool.get_mamba_ping_pong_keep_idx(req)
    tracked = req.kv.mamba_ping_pong_track_buffer[latest].clone()
    # Up to here nothing has changed, and what follows only assigns: a failure leaves both slots with their owner.
    pool.set_mamba_ping_pong_slot(req, latest, req.kv.mamba_pool_idx)
    req.kv.mamba_pool_idx = tracked
    req.kv.mamba_last_track_seqlen = req.kv.kv_committed_len
