"""Wrapping functions of SGLang, once per process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_marconi.compat import HookRegistry, HookType

_installed: set[str] = set()


def wrap_methods(owner: type, wrappers: dict[str, Callable[..., Any]]) -> None:
    """Wrap methods of a class of SGLang; wrapping one again changes nothing.

    Args:
        owner: the class.
        wrappers: method name -> ``wrapper(original, self, *args, **kwargs)``.
    """
    for method, wrapper in wrappers.items():
        target = f"{owner.__module__}.{owner.__qualname__}.{method}"
        if target not in _installed:
            HookRegistry.register(target, wrapper, HookType.AROUND)
            _installed.add(target)
    HookRegistry.apply_hooks()
