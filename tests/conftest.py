"""Fixtures of every kind of test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from triton_interpreter import TritonInterpreter


@pytest.fixture(scope="session")
def triton() -> Iterator[TritonInterpreter]:
    """SGLang's Triton kernels under the interpreter; skips where SGLang is not installed."""
    pytest.importorskip("sglang", reason="the Triton kernels to compare with are SGLang's")
    interpreter = TritonInterpreter()
    yield interpreter
    interpreter.close()
