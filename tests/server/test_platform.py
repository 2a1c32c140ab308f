"""The CPU platform and its server helper."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import STRATEGIES, Tokens

from sglang_marconi.platform.server import TinyServer


def test_spawned_tensor_parallel_ranks_answer_as_one_forked_rank_does(tiny_model: Callable[[str], Path]) -> None:
    prompt = Tokens(seed=8)(100)
    answers = []
    for flags, fork in (({}, True), ({"tp": 2}, False)):
        with TinyServer(tiny_model("falcon_h1"), flags={**STRATEGIES["no_buffer"], **flags}, fork=fork) as server:
            answers.append(server.generate(prompt, 4))
            answers.append(server.generate([*prompt, 9], 4))
    one, one_hit, two, two_hit = answers
    assert two.token_ids == one.token_ids
    assert two.logprobs == pytest.approx(one.logprobs, abs=1e-4)
    assert (two_hit.cached_tokens, one_hit.cached_tokens) == (100, 100)
    assert two_hit.logprobs == pytest.approx(one_hit.logprobs, abs=1e-4)


def test_a_server_that_cannot_start_says_why_and_leaves_no_process(tiny_model: Callable[[str], Path]) -> None:
    server = TinyServer(tiny_model("llama"), flags={"no-such-flag": True})
    with pytest.raises(RuntimeError, match="no-such-flag"), server:
        pass
    assert server.process_group is not None
    with pytest.raises(ProcessLookupError):
        os.killpg(server.process_group, 0)
