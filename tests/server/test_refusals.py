"""Bad configuration ends the start with a message that names the thing, the value and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import STRATEGIES

from sglang_marconi.platform.server import TinyServer


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"radix-eviction-policy-config": {"alfa": 1}},
            "unknown key 'alfa' in --radix-eviction-policy-config; the marconi backend knows: alpha",
        ),
        (
            {"radix-eviction-policy": "lfu"},
            "--radix-cache-backend marconi does not work with --radix-eviction-policy",
        ),
    ],
)
def test_start_is_refused_with_the_reason(
    tiny_model: Callable[[str], Path], flags: dict[str, object], message: str
) -> None:
    chosen = {**STRATEGIES["no_buffer"], **flags}
    with pytest.raises(RuntimeError) as error, TinyServer(tiny_model("falcon_h1"), backend="marconi", flags=chosen):
        pass
    assert message in str(error.value)
