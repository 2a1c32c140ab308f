"""SGLang's server with prefill chunks that must end on a grid, as with attention backends that this CPU lacks."""

from __future__ import annotations

import runpy

from sglang.srt.managers.scheduler import Scheduler

ALIGNMENT = 32


def align(scheduler: Scheduler) -> None:
    scheduler.truncation_align_size = ALIGNMENT


if __name__ == "__main__":
    Scheduler.init_mamba_truncation_align = align
    runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=True)
