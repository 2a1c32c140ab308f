"""The line about machine and versions that every benchmark prints."""

from __future__ import annotations

import importlib.metadata
import os
import platform


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{package} absent"


def describe_machine() -> str:
    """Cores, processor, Python, and the packages that matter, in one line."""
    packages = ", ".join(_version(name) for name in ("sglang-marconi", "sglang", "torch"))
    return f"{os.cpu_count()} cores, {_processor()}, Python {platform.python_version()}, {packages}"
