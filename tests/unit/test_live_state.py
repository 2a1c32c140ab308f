"""When a finished request's live state may stand for its last token: SGLang's own request, no server."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

pytest.importorskip("sglang", reason="requests are SGLang's")

from sglang.srt.managers.schedule_batch import Req
from sglang.srt.sampling.sampling_params import SamplingParams

from sglang_marconi.cache.last_token import live_state_is_at

VOCAB_SIZE = 100
STOP_TOKEN = 7


def finished_request(reply: list[int], lookahead: int, max_new_tokens: int = 50) -> Any:
    """12 tokens of prompt and a reply whose last token has just been seen; overlap ran ``lookahead`` steps more."""
    sampling = SamplingParams(max_new_tokens=max_new_tokens, stop_token_ids=[STOP_TOKEN])
    sampling.normalize(tokenizer=None)
    req = Req(
        rid="one",
        origin_input_text="",
        origin_input_ids=array("q", range(12)),
        sampling_params=sampling,
        vocab_size=VOCAB_SIZE,
    )
    req.output_ids.extend(reply)
    req.kv.kv_committed_len = 12 + len(reply) - 1 + lookahead
    req.update_finish_state()
    assert req.finished()
    return req


def test_overlap_has_run_the_stop_token() -> None:
    assert live_state_is_at(finished_request([1, 2, 3, STOP_TOKEN], lookahead=1), 16, page_size=1)


def test_reply_of_full_length_ends_before_its_last_token() -> None:
    req = finished_request([1, 2, 3], lookahead=0, max_new_tokens=3)
    assert live_state_is_at(req, 14, page_size=1)
    assert not live_state_is_at(req, 15, page_size=1)


def test_key_shorter_than_the_state_gets_none() -> None:
    """``--strip-thinking-cache`` keeps the prompt alone."""
    assert not live_state_is_at(finished_request([1, 2, 3, STOP_TOKEN], lookahead=1), 12, page_size=1)


@pytest.mark.parametrize(("page_size", "expected"), [(1, True), (4, True), (8, True), (16, True), (32, False)])
def test_key_is_whole_pages(page_size: int, expected: bool) -> None:
    req = finished_request([1, 2, 3, STOP_TOKEN], lookahead=1)
    assert live_state_is_at(req, 16, page_size) is expected


def test_token_that_sglang_replaced_is_not_what_ran() -> None:
    """An id outside the vocabulary becomes the stop token in the reply, after the next step has read it."""
    req = finished_request([1, 2, 3, VOCAB_SIZE + 5], lookahead=1)
    assert req.output_ids[-1] == STOP_TOKEN
    assert not live_state_is_at(req, 16, page_size=1)
