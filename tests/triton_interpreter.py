"""SGLang's Triton kernels on a CPU: Triton's interpreter, in a process of its own.

`TRITON_INTERPRET` counts when a kernel is defined, and would change every server that the tests start.
"""

from __future__ import annotations

import os
import pickle
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pkgutil import resolve_name
from typing import Any


class TritonInterpreter:
    """Calls functions of SGLang where their Triton kernels are interpreted."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        before = dict(os.environ)
        os.environ.update(TRITON_INTERPRET="1", SGLANG_PLATFORM="marconi_cpu", OMP_NUM_THREADS="1")
        try:
            self._pool.submit(_prepare).result()
        finally:
            os.environ.clear()
            os.environ.update(before)

    def call(self, seam: str, *args: Any, **kwargs: Any) -> Any:
        """Result of ``"module:name"``; tensors among the arguments change in place as the function changes them.

        The interpreter computes nonsense in bfloat16 (it takes the bits for integers), so tensors go in as float32,
        which holds every bfloat16.
        """
        singles = tuple(map(_single, args)), {name: _single(value) for name, value in kwargs.items()}
        result, changed, _seconds = self._call(seam, *singles)
        _copy_back(args, changed[0])
        _copy_back(tuple(kwargs.values()), tuple(changed[1].values()))
        return result

    def seconds(self, seam: str, *args: Any, **kwargs: Any) -> float:
        """How long the second call of ``"module:name"`` takes; arguments stay as they are."""
        self._call(seam, args, kwargs)
        return self._call(seam, args, kwargs)[2]

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown()

    def _call(self, seam: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # Pickled here: the pool's own pickler would share the tensors' memory through file descriptors.
        return pickle.loads(self._pool.submit(_run, pickle.dumps((seam, args, kwargs))).result())


def _prepare() -> None:
    """Let autotuned kernels take their first configuration: there is no driver to time them with."""
    from sglang.kernels.ops.attention.fla import fused_recurrent, layernorm_gated
    from sglang.srt.platforms import current_platform
    from triton import language as tl
    from triton.runtime.autotuner import Autotuner

    assert current_platform.device_name == "marconi_cpu"

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.fn.run(*args, **{**self.configs[0].kwargs, **kwargs})

    Autotuner.run = run
    layernorm_gated._get_sm_count = lambda _device: 4
    # The interpreter replaces tl.exp while a kernel runs; this module kept hold of the original.
    fused_recurrent.exp = lambda x: tl.exp(x)


def _run(pickled: bytes) -> bytes:
    seam, args, kwargs = pickle.loads(pickled)
    function = resolve_name(seam)
    begin = time.perf_counter()
    result = function(*args, **kwargs)
    seconds = time.perf_counter() - begin
    return pickle.dumps((result, (args, kwargs), seconds))


def _single(value: Any) -> Any:
    import torch

    return value.float() if torch.is_tensor(value) and value.dtype == torch.bfloat16 else value


def _copy_back(mine: tuple[Any, ...], theirs: tuple[Any, ...]) -> None:
    for target, source in zip(mine, theirs, strict=True):
        # Only what changed: an expanded input cannot be written to.
        if hasattr(target, "copy_") and not target.equal(source.to(target.dtype)):
            target.copy_(source)
