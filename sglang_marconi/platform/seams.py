"""Every private name of SGLang that the platform touches, checked when the platform starts."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

def check() -> None:
    """Raise if this version of SGLang lacks a module of which the platform replaces a function."""


def replace(seam: str, function: Callable[..., Any]) -> None:
    """Bind ``function`` in place of ``"module:name"``, there and in every module that has imported the original."""
    module_name, name = seam.split(":")
    module = importlib.import_module(module_name)
    original = _attribute(module, seam, name)
    setattr(module, name, function)
    for other in list(sys.modules.values()):
        for alias, value in list(getattr(other, "__dict__", {}).items()):
            if value is original:
                setattr(other, alias, function)


def _attribute(module: Any, seam: str, name: str) -> Any:
    if not hasattr(module, name):
        raise _missing(seam)
    return getattr(module, name)


def _missing(seam: str) -> RuntimeError:
    return RuntimeError(
        f"marconi_cpu: SGLang {version('sglang')} has no {seam.replace(':', '.')}, which this platform replaces; "
        "install the range of sglang that sglang-marconi[sglang] names"
    )
