"""Finds the form of the utility that suits the live cache (Marconi, section 4.3).

The cache starts at alpha 0. From the first eviction on, requests are recorded in windows; a closed window
is replayed in the native core for each form, in threads of low priority, from the cache's state when the
window opened. The best form is adopted if it beats the present one by a margin.

Every rank records and counts alike; rank 0 searches, and all ranks adopt its choice at the same request.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from typing import Any, Literal

from sglang_marconi._core import Objective, TuningOptions, TuningSchedule, WindowSearch, choose_form, tuning_forms
from sglang_marconi.cache.policy import LivePolicy
from sglang_marconi.tuning.agreement import RankAgreement
from sglang_marconi.tuning.recorder import LiveRecorder, LiveSizes

logger = logging.getLogger(__name__)

_NOT_DONE, _FAILED = -1, -2

Phase = Literal["waiting", "collecting", "searching"]


@dataclasses.dataclass
class SearchReport:
    """What the last search found."""

    window_requests: int
    seconds: float
    #: (alpha, recency, bytes) -> simulated hit tokens and FLOPs saved, on the rank that searched.
    scores: list[tuple[tuple[float, str, str], float, float]]
    present: tuple[float, str, str]
    chosen: tuple[float, str, str]

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON; ``regret`` is what alpha 0 and the best form had beyond the one in force."""
        hits = {form: hit for form, hit, _ in self.scores}
        regret = {}
        if hits:
            in_force = hits[self.present]
            regret = {"alpha_0": self.scores[0][1] - in_force, "best": max(hits.values()) - in_force}
        return {
            "window_requests": self.window_requests,
            "search_s": self.seconds,
            "present": _named(self.present),
            "chosen": _named(self.chosen),
            "regret_hit_tokens": regret,
            "scores": [
                {**_named(form), "hit_tokens": hits_, "flops_saved": flops} for form, hits_, flops in self.scores
            ],
        }


def _named(form: tuple[float, str, str]) -> dict[str, Any]:
    return dict(zip(("alpha", "recency", "bytes"), form, strict=True))


class LiveTuner:
    """Tunes one cache.

    Args:
        policy: whose order of victims is tuned; its configuration says how.
        sizes: the cache's pools.
        agreement: of the ranks that must decide alike.
    """

    purpose = "recording requests for tuning"

    def __init__(self, policy: LivePolicy, sizes: LiveSizes, agreement: RankAgreement) -> None:
        config = policy.config
        self._policy = policy
        self._agreement = agreement
        self._recorder = LiveRecorder(config, policy.cost, sizes)
        self._options = TuningOptions(
            bootstrap_multiplier=config.bootstrap_multiplier, retune_interval_requests=config.retune_interval
        )
        self._objective = Objective(counts_flops=config.objective == "flops", min_gain=config.min_gain)
        self._threads = config.tuner_threads
        self._forms = tuning_forms()
        self._present = 0
        self._running: dict[int, Any] = {}
        self._search: WindowSearch | None = None
        self._is_searching = False
        self._opens_next = False
        self._search_started_s = 0.0
        self._closed_requests = 0
        self.failures = 0
        self.adoptions = 0
        self.last_search: SearchReport | None = None
        self._schedule = TuningSchedule(self._options)

    # ---- what the cache tells ----

    def request_computed(self, req: Any, root: Any) -> None:
        """A piece of the request's prompt was computed; called before the tree takes it."""
        if self._running.get(req.kv.req_pool_idx) is req:
            return
        self._running[req.kv.req_pool_idx] = req
        if self._opens_next:
            self._opens_next = False
            self._recorder.open(root, self._policy.order)
        if self._schedule.is_collecting:
            self._recorder.request_started(req)
            if self._recorder.native.is_full:
                self._schedule.close_early()
        self._adopt_if_found()
        stats = self._policy.stats
        has_evicted = stats.states_evicted + stats.leaves_evicted > 0
        event = self._schedule.request_started(req.kv.cache_protected_len, len(req.origin_input_ids), has_evicted)
        if event == "open":
            # Once the tree has taken this request.
            self._opens_next = True
        elif event == "close":
            self._start_search()

    def request_finished(self, req: Any) -> None:
        """The request leaves; called before the tree takes its reply."""
        if self._running.pop(req.kv.req_pool_idx, None) is req and self._schedule.is_collecting:
            self._recorder.request_finished(req)

    def reset(self) -> None:
        """The cache was flushed: what was recorded is worth nothing; the form stays."""
        self.stop()
        self._running.clear()
        self._opens_next = False
        self._schedule = TuningSchedule(self._options)

    def stop(self) -> None:
        """End a search at once."""
        if self._search is not None:
            self._search.cancel()
        self._search = None
        self._is_searching = False

    # ---- search ----

    def _start_search(self) -> None:
        self.stop()
        self._closed_requests = self._schedule.window_requests
        self._search_started_s = time.monotonic()
        self._is_searching = True
        if self._agreement.decides:
            self._search = WindowSearch(self._recorder.native, self._threads)

    def _adopt_if_found(self) -> None:
        """While rank 0 searches, every rank asks at every request; the answer is the same on all."""
        if not self._is_searching:
            return
        found = self._agreement.agree(self._found() if self._agreement.decides else _NOT_DONE)
        if found == _NOT_DONE:
            return
        self.stop()
        if found == _FAILED:
            self.failures += 1
            return
        if found != self._present:
            self.adoptions += 1
            self._policy.order.set_form(*self._forms[found])
            logger.info("marconi: tuned alpha, recency and bytes to %s", self._forms[found])
        self._present = found

    def _found(self) -> int:
        """Number of the form to go on with, or that there is none yet."""
        if self._search is None or not self._search.is_done:
            return _NOT_DONE
        try:
            scores = self._search.scores()
        except Exception:
            logger.exception("marconi: a search for alpha failed; serving goes on as it was")
            return _FAILED
        chosen = choose_form(scores, self._present, self._objective)
        self.last_search = SearchReport(
            window_requests=self._closed_requests,
            seconds=time.monotonic() - self._search_started_s,
            scores=[(form, *score[:2]) for form, score in zip(self._forms, scores, strict=True)],
            present=self._forms[self._present],
            chosen=self._forms[chosen],
        )
        return chosen

    # ---- from outside ----

    @property
    def phase(self) -> Phase:
        if self._is_searching:
            return "searching"
        return "collecting" if self._schedule.is_collecting else "waiting"

    def describe(self) -> dict[str, Any]:
        """State for ``/server_info``."""
        schedule = self._schedule
        return {
            "phase": self.phase,
            "form": _named(self._forms[self._present]),
            "requests": schedule.requests,
            "requests_before_first_eviction": schedule.first_eviction,
            "window_requests": schedule.window_requests,
            "collected_requests": schedule.collected_requests,
            "recorder_bytes": self._recorder.native.memory_bytes,
            "adoptions": self.adoptions,
            "failures": self.failures,
            "last_search": self.last_search.as_dict() if self.last_search else None,
        }
