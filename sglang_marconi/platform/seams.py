"""How the platform takes hold of private names of SGLang: all checked first, each error naming what is missing."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any


def check(seams: Iterable[str]) -> None:
    """Raise unless each ``"module:name"`` exists in the installed SGLang.

    Raises:
        RuntimeError: naming SGLang's version and every name it lacks.
    """
    missing = [seam for seam in seams if not _exists(seam)]
    if missing:
        names = ", ".join(seam.replace(":", ".") for seam in missing)
        raise RuntimeError(
            f"marconi_cpu: SGLang {version('sglang')} lacks {names}, for which this platform has torch kernels; "
            "install the version of SGLang that sglang-marconi[sglang] names"
        )


def replace(seam: str, function: Callable[..., Any]) -> None:
    """Bind ``function`` in place of ``"module:name"``, there and in every module that has imported the original."""
    module_name, name = seam.split(":")
    module = importlib.import_module(module_name)
    original = getattr(module, name)
    setattr(module, name, function)
    for other in list(sys.modules.values()):
        for alias, value in list(getattr(other, "__dict__", {}).items()):
            if value is original:
                setattr(other, alias, function)


def _exists(seam: str) -> bool:
    module_name, name = seam.split(":")
    try:
        return hasattr(importlib.import_module(module_name), name)
    except ModuleNotFoundError:
        return False
