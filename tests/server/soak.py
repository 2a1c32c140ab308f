"""Random load on a real server, with every answer checked against an uncached one."""

from __future__ import annotations

import dataclasses
import os
import random
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from conftest import check_pools_whole
from random_requests import RandomRequests, Served, mismatches

from sglang_marconi.platform.server import Generation, TinyServer

#: Room for a few of the running requests' prompts and states: everything else is evicted again and again.
MEMORY: dict[str, dict[str, object]] = {
    "no_buffer": {"max-total-tokens": 2048, "max-mamba-cache-size": 16, "chunked-prefill-size": 256},
    "extra_buffer": {"max-total-tokens": 2048, "max-mamba-cache-size": 28, "chunked-prefill-size": 256},
}
_LONGEST_PROMPT = 3000  # longer than the KV pool


@dataclasses.dataclass
class SoakCounts:
    """What was sent and what came of it."""

    rounds: int = 0
    requests: int = 0
    checked: int = 0
    cached_tokens: int = 0
    prompt_tokens: int = 0
    aborted: int = 0
    finished_before_abort: int = 0
    refused: int = 0
    flushes: int = 0
    mismatches: list[str] = dataclasses.field(default_factory=list)


class Soak:
    """Sends rounds of random requests; the same seed draws the same ones.

    A round is a burst of conversations that share prefixes, go on, or have their history edited, among them
    requests that are aborted while they wait or run, parallel samples, prompts of one token, replies of none or
    one, and prompts longer than the pool; some rounds flush the cache, busy or idle. At its end the server is
    idle: its pools must be whole, and every answer must have the logprobs of an uncached prefill.
    """

    def __init__(self, server: TinyServer, seed: int) -> None:
        self.server = server
        self.counts = SoakCounts()
        self._rng = random.Random(seed)
        self._requests = RandomRequests(seed, burst=12)
        self._number = 0

    def round(self, count: int = 24) -> None:
        """One round of about ``count`` requests."""
        with ThreadPoolExecutor(8) as pool:
            side = [pool.submit(self._rng_choice()) for _ in range(count // 4)]
            busy_flush = pool.submit(self._flush_busy) if self._rng.random() < 0.2 else None
            served = self._requests.send(self.server, count)
            for job in side:
                self._settle(job, served)
            if busy_flush is not None:
                busy_flush.result()
        check_pools_whole(self.server)
        self._check(served)
        if self._rng.random() < 0.2:
            self.server.flush()
            self.counts.flushes += 1
        check_pools_whole(self.server)
        self.counts.rounds += 1

    def _rng_choice(self) -> Callable[[], list[Served]]:
        """A request of an unusual kind, drawn now and sent by the caller's thread."""
        rng = self._rng
        prompt = [rng.randrange(10, 240) for _ in range(rng.choice([1, 40, 150]))]
        kind = rng.choice(["abort", "abort", "abort", "samples", "short", "empty", "long"])
        self._number += 1
        name, delay_s = f"soak-{self._number}", rng.random() * 0.3
        length = rng.randint(2, 12)
        match kind:
            case "abort":
                return lambda: self._abort(prompt, name, delay_s)
            case "samples":
                return lambda: self._samples(prompt, length)
            case "short":
                return lambda: [(prompt, self.server.generate(prompt, 1))]
            case "empty":
                return lambda: self._without_answer(prompt)
            case _:
                return self._too_long

    def _abort(self, prompt: list[int], name: str, delay_s: float) -> list[Served]:
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(self.server.generate, prompt, 400, rid=name)
            time.sleep(delay_s)  # the load: the abort meets the request waiting, in its prefill or decoding
            while not running.done():
                self.server.abort(name)
                time.sleep(0.05)
            try:
                answer = running.result()
            except RuntimeError as error:
                if "abort" not in str(error):
                    raise
                self.counts.aborted += 1
                return []
        self.counts.finished_before_abort += 1
        return [(prompt, answer)]

    def _samples(self, prompt: list[int], length: int) -> list[Served]:
        body = {
            "input_ids": prompt,
            "return_logprob": True,
            "sampling_params": {"temperature": 0, "max_new_tokens": length, "ignore_eos": True, "n": 3},
        }
        answers = self.server.request("/generate", body, timeout_s=120)
        return [
            (
                prompt,
                Generation(
                    token_ids=answer["output_ids"],
                    text="",
                    logprobs=[entry[0] for entry in answer["meta_info"]["output_token_logprobs"]],
                    input_logprobs=[],
                    prompt_tokens=answer["meta_info"]["prompt_tokens"],
                    cached_tokens=answer["meta_info"]["cached_tokens"],
                    latency_s=0.0,
                    meta=answer["meta_info"],
                ),
            )
            for answer in answers
        ]

    def _without_answer(self, prompt: list[int]) -> list[Served]:
        self.server.generate(prompt, 0)
        return []

    def _too_long(self) -> list[Served]:
        try:
            self.server.generate([20] * _LONGEST_PROMPT, 4)
        except RuntimeError:
            self.counts.refused += 1
            return []
        raise AssertionError("a prompt longer than the pool was served")

    def _flush_busy(self) -> None:
        try:
            self.server.request("/flush_cache", {})
        except RuntimeError as error:
            if "400" not in str(error):  # what SGLang says while requests run
                raise
        self.counts.flushes += 1

    def _settle(self, job: Future[list[Served]], served: list[Served]) -> None:
        served += job.result()

    def _check(self, served: list[Served]) -> None:
        answered = [(prompt, answer) for prompt, answer in served if answer.token_ids]
        counts = self.counts
        counts.requests += len(served)
        counts.checked += len(answered)
        counts.cached_tokens += sum(answer.cached_tokens for _, answer in served)
        counts.prompt_tokens += sum(len(prompt) for prompt, _ in served)
        counts.mismatches += mismatches(self.server, answered)


def group_rss_mb(process_group: int) -> float:
    """Memory of the server's processes, in MiB; what they share is counted in each."""
    pages = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        if int(fields[2]) == process_group:
            pages += int(fields[21])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
