"""Under memory pressure our cache hits at least what SGLang's own does with the same flags."""

from __future__ import annotations

import pytest
from conftest import STRATEGIES, ServerFactory, check_pools_whole

from sglang_marconi.platform.conversations import replay, sample_sessions, scale

SESSIONS = 8


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_hits_on_real_conversations_are_at_least_sglangs(serve: ServerFactory, strategy: str) -> None:
    """States for a quarter of what the conversations would keep; prompts and order are the same."""
    sessions = scale(sample_sessions()[:SESSIONS], stride=6)
    turns = sum(len(session.turns) for session in sessions)
    flags = {"max-total-tokens": 4096, "max-mamba-cache-size": max(8, turns // 4)}
    cached = {}
    for backend in (None, "marconi"):
        server = serve(strategy=strategy, backend=backend, flags=flags)
        cached[backend] = sum(request.cached_tokens for request in replay(server.url, sessions, active=4))
        if backend == "marconi":
            check_pools_whole(server)
    assert cached["marconi"] >= cached[None], cached
