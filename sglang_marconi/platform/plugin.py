"""What SGLang calls to choose the platform: entry point ``marconi_cpu`` of group ``sglang.srt.platforms``."""

from __future__ import annotations

import os

NAME = "marconi_cpu"
PLATFORM_CLASS = "sglang_marconi.platform.cpu.MarconiCpuPlatform"

# Set to 1, SGLang's processes are forked: they need not import it again, which halves the time to start. Without it
# they are spawned as on a GPU, where a forked process cannot use CUDA.
FORK_VARIABLE = "SGLANG_MARCONI_FORK"


def activate() -> str | None:
    """Dotted name of the platform class if the user chose it with ``SGLANG_PLATFORM``, else None.

    SGLang calls this in every process: without the choice it asks each installed platform, and this one has no
    hardware of its own by which it could tell that it is meant.
    """
    return PLATFORM_CLASS if os.environ.get("SGLANG_PLATFORM") == NAME else None
