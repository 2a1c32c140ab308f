"""SGLang's server with a policy in which everything fails now and then."""

from __future__ import annotations

import itertools
import random
import runpy
from collections.abc import Callable
from typing import Any

from sglang_marconi._core import UtilityOrder
from sglang_marconi.cache import components, policy, prefill_split, server_state
from sglang_marconi.cache.admission import JudiciousAdmission
from sglang_marconi.cache.components import MarconiStateComponent
from sglang_marconi.tuning.tuner import LiveTuner

PROBABILITY = 0.1
ORDER = ("node_added", "node_split", "node_removed", "state_admitted", "state_evicted", "set_state_locked")
ORDER += ("leaf_added", "leaf_removed", "touch", "state_victim", "leaf_victim")

_rng = random.Random(5)


def sometimes(original: Callable[..., Any]) -> Callable[..., Any]:
    """Fails when first called, and now and then."""
    calls = itertools.count()

    def call(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == 0 or _rng.random() < PROBABILITY:
            raise RuntimeError("injected")
        return original(*args, **kwargs)

    return call


def first_fails(original: Callable[..., Any]) -> Callable[..., Any]:
    failures = iter([RuntimeError("injected")])

    def call(*args: Any) -> Any:
        for failure in failures:
            raise failure
        return original(*args)

    return call


def inject(owner: Any, *names: str) -> None:
    for name in names:
        setattr(owner, name, sometimes(getattr(owner, name)))


if __name__ == "__main__":
    policy.UtilityOrder = type("FailingOrder", (UtilityOrder,), {n: sometimes(getattr(UtilityOrder, n)) for n in ORDER})
    inject(JudiciousAdmission, "branch_point", "wants_state")
    inject(prefill_split, "_tokens_to_branch")
    inject(components, "live_state_is_at", "track_live_state")
    inject(MarconiStateComponent, "_hand_over")
    inject(LiveTuner, "request_computed", "request_finished")
    server_state.describe = first_fails(server_state.describe)
    runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=True)
