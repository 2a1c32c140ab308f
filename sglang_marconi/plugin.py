"""What SGLang calls early in every process: offers the ``marconi`` radix-cache backend."""

from __future__ import annotations

from typing import Any

from sglang_marconi import compat

BACKEND_NAME = "marconi"


def register() -> None:
    """Entry point ``sglang.srt.plugins``. Nothing else happens until the backend is chosen."""
    if compat.get_radix_cache_factory(BACKEND_NAME) is None:
        compat.register_radix_cache_backend(BACKEND_NAME, build_backend)


def build_backend(ctx: Any) -> Any:
    """The cache for ``--radix-cache-backend marconi``.

    Args:
        ctx: SGLang's ``TreeCacheBuildContext``.

    Raises:
        IncompatibleSGLang: this SGLang lacks a name that the cache needs.
        ValueError: the configuration or a combination of flags is not supported.
    """
    compat.check_seams()
    from sglang_marconi.cache.radix_cache import build

    return build(ctx)
