"""Traces, models and replays on the native core."""

from sglang_marconi.sim.models import load_model
from sglang_marconi.sim.replay import POLICIES, PRESETS, ReplayRun, replay, run_search
from sglang_marconi.sim.results import RunResult
from sglang_marconi.sim.traces import read_trace

__all__ = [
    "POLICIES",
    "PRESETS",
    "ReplayRun",
    "RunResult",
    "load_model",
    "read_trace",
    "replay",
    "run_search",
]
