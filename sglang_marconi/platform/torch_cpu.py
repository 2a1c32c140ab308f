"""What SGLang expects of a torch device module and `torch.cpu` does not offer."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch
from triton.runtime.jit import JITFunction

from sglang_marconi.platform.plugin import FORK_VARIABLE

_set_start_method = multiprocessing.set_start_method
# What SGLang calls with `pin_memory=True` whatever the device (LoRA does).
_CREATE = {name: getattr(torch, name) for name in ("tensor", "empty", "zeros")}


def install() -> None:
    """Complete torch for a process that runs SGLang on CPU tensors. Idempotent."""
    # SGLang wraps work in `torch.get_device_module(device).device(index)`; there is one CPU device, nothing to choose.
    torch.cpu.device = _no_device  # type: ignore[attr-defined]
    # Without an argument, a CUDA build of torch answers torch.cuda even where there is no GPU.
    torch.get_device_module = _cpu_module  # type: ignore[assignment]
    # Pinning asks the CUDA driver; without one it raises, and for CPU tensors it would gain nothing.
    torch.Tensor.pin_memory = _unpinned  # type: ignore[assignment, method-assign]
    for name, create in _CREATE.items():
        setattr(torch, name, _without_pinning(create))
    if os.environ.get(FORK_VARIABLE) == "1":
        multiprocessing.set_start_method = _set_fork  # type: ignore[assignment]
    # Tracing asks the CUDA runtime for its current stream, and compiling small functions on a CPU gains nothing.
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    if "torch._dynamo.config" in sys.modules:
        sys.modules["torch._dynamo.config"].disable = True  # type: ignore[attr-defined]
    # Compiling a Triton kernel needs a GPU driver: say which kernel has no torch version instead of that.
    JITFunction.run = _refuse_triton


@contextlib.contextmanager
def _no_device(_index: Any = None) -> Iterator[None]:
    yield


def _cpu_module(_device: Any = None) -> ModuleType:
    return torch.cpu


def _unpinned(self: torch.Tensor, *_args: Any, **_kwargs: Any) -> torch.Tensor:
    return self


def _without_pinning(create: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(create)
    def created(*args: Any, pin_memory: bool = False, **kwargs: Any) -> torch.Tensor:
        return create(*args, **kwargs)

    return created


def _set_fork(_method: str | None, force: bool = False) -> None:
    _set_start_method("fork", force=force)


def _refuse_triton(self: Any, *_args: Any, **_kwargs: Any) -> None:
    raise NotImplementedError(
        f"marconi_cpu has no torch version of the Triton kernel {self.fn.__module__}.{self.fn.__name__}; "
        "set TRITON_INTERPRET=1 to run it in Triton's interpreter (slow)"
    )
