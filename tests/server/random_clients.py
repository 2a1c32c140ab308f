"""Thousands of random requests against one server: what users send, and how they leave.

A round sends bursts, waits until nothing runs, and checks: every answer equals an uncached computation, every slot
is free or cached, at most two states were kept per request, no process is lost. SGLang's own checks run inside the
server (``STRICT``) and end it when they fail, so every later request fails too.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
from conftest import marconi

from sglang_marconi.platform.server import TinyServer

#: Float32, batches of other sizes sum in another order.
LOGPROB_TOLERANCE = 1e-4
BURST = 8
MAX_HISTORY_TOKENS = 340
STATES_PER_REQUEST = 2
IDLE_TIMEOUT_S = 60.0

POOL_TOKENS = 1024
#: Room for a few of the running requests' prompts and states: everything else is evicted again and again.
TINY_MEMORY: dict[str, dict[str, object]] = {
    "no_buffer": {"max-total-tokens": POOL_TOKENS, "max-mamba-cache-size": 12},
    "extra_buffer": {"max-total-tokens": POOL_TOKENS, "max-mamba-cache-size": 20},
}
SMALL_CHUNKS: dict[str, object] = {"chunked-prefill-size": 128, "enable-metrics": True}


@dataclasses.dataclass
class Counts:
    """What a soak did, and what it found."""

    requests: int = 0
    answers: int = 0
    #: Answers that no second computation was compared with: they generated nothing.
    empty_answers: int = 0
    prompt_tokens: int = 0
    hits: int = 0
    hit_tokens: int = 0
    disconnects: int = 0
    aborts_sent: int = 0
    aborted: int = 0
    refused_too_long: int = 0
    flushes_idle: int = 0
    flushes_busy: int = 0
    idle_points: int = 0
    mismatches: int = 0
    largest_logprob_difference: float = 0.0


@dataclasses.dataclass(frozen=True)
class Job:
    """One thing that a client does."""

    kind: str
    prompt: list[int] = dataclasses.field(default_factory=list)
    reply_len: int = 0
    samples: int = 1
    #: Pieces of the answer that a client reads before it leaves.
    leaves_after: int = 0
    rid: str = ""


@dataclasses.dataclass(frozen=True)
class Answer:
    """A prompt and one continuation of it."""

    prompt: list[int]
    reply: list[int]
    logprobs: list[float]


class Soak:
    """Draws, sends and checks requests.

    Args:
        server: running, with ``STRICT`` in its environment, metrics on, and a pool of ``pool_tokens`` KV slots.
        seed: of every choice; the timing of the server adds its own.
    """

    def __init__(self, server: TinyServer, seed: int, pool_tokens: int) -> None:
        self._server = server
        self._rng = random.Random(seed)
        self._seed = seed
        self._pool_tokens = pool_tokens
        self._prefixes = [self._tokens(60, 150) for _ in range(4)]
        self._histories: list[list[int]] = []
        self._names = 0
        self._own_requests = 0
        self._kept_before = self._states_kept()
        self.counts = Counts()
        self.faults: list[str] = []

    def round(self, bursts: int = 6) -> None:
        """Send bursts, then check everything while the server is idle."""
        answers: list[Answer] = []
        for _ in range(bursts):
            jobs = self._burst()
            with ThreadPoolExecutor(len(jobs)) as pool:
                for given in pool.map(self._do, jobs):
                    answers += given
        self._histories = (self._histories + [answer.prompt + answer.reply for answer in answers])[-24:]
        self._check_idle()
        self._compare(answers)
        if self._rng.random() < 0.3:
            self._server.flush()
            self.counts.flushes_idle += 1
        self._check_idle()

    # ---- what is sent ----

    def _burst(self) -> list[Job]:
        if self._rng.random() < 0.2:  # few-shot: one long opening, many questions
            opening = self._tokens(100, 200)
            jobs = [Job("ask", opening + self._tokens(1, 30), self._rng.randint(1, 6)) for _ in range(BURST)]
        else:
            jobs = [self._job() for _ in range(self._rng.randint(1, BURST))]
        named = [job.rid for job in jobs if job.kind == "aborted"]
        jobs += [Job("abort", rid=rid) for rid in named]
        if self._rng.random() < 0.15:
            jobs.insert(self._rng.randint(0, len(jobs)), Job("flush"))
        return jobs

    def _job(self) -> Job:
        rng = self._rng
        choice, reply_len = rng.random(), rng.choice([0, 1, 1, 2, 5, 12, 30])
        if choice < 0.04:
            return Job("ask", self._tokens(1, 1), reply_len)
        if choice < 0.07:
            return Job("too long", self._tokens(self._pool_tokens + 1, self._pool_tokens + 200), reply_len)
        prompt = self._prompt()
        if choice < 0.17:
            return Job("leave", prompt, 30, leaves_after=rng.choice([0, 0, 1, 4]))
        if choice < 0.27:
            self._names += 1
            return Job("aborted", prompt, 30, rid=f"{self._seed}-{self._names}")
        if choice < 0.34:
            return Job("ask", prompt, rng.randint(1, 6), samples=rng.randint(2, 3))
        return Job("ask", prompt, reply_len)

    def _prompt(self) -> list[int]:
        """A new conversation, the next turn of one, one with its history edited, or one repeated."""
        choice = self._rng.random()
        if choice < 0.3 or not self._histories:
            return self._rng.choice(self._prefixes) + self._tokens(1, 60)
        history = self._rng.choice(self._histories)[:MAX_HISTORY_TOKENS]
        if choice < 0.5:
            history = history[: self._rng.randint(1, len(history))]
        elif choice < 0.6:
            return history
        return history + self._tokens(1, 60)

    def _tokens(self, shortest: int, longest: int) -> list[int]:
        return [self._rng.randrange(10, 240) for _ in range(self._rng.randint(shortest, longest))]

    # ---- sending ----

    def _do(self, job: Job) -> list[Answer]:
        if job.kind == "flush":
            return self._flush_busy()
        if job.kind == "abort":
            self._server.abort(job.rid)
            self.counts.aborts_sent += 1
            return []
        self.counts.requests += job.samples
        if job.kind == "leave":
            leave(self._server, body(job), job.leaves_after)
            self.counts.disconnects += 1
            return []
        try:
            answered = self._server.request("/generate", body(job), timeout_s=300)
        except RuntimeError as error:
            if job.kind != "too long" or "HTTP 400" not in str(error):
                raise
            self.counts.refused_too_long += 1
            return []
        if job.kind == "too long":
            self.faults.append(f"a prompt of {len(job.prompt)} tokens was served from {self._pool_tokens} KV slots")
        return self._read(job, answered if isinstance(answered, list) else [answered])

    def _flush_busy(self) -> list[Answer]:
        """SGLang refuses it while anything runs, and does it otherwise."""
        try:
            self._server.request("/flush_cache", {})
        except RuntimeError as error:
            if "HTTP 400" not in str(error):
                raise
        self.counts.flushes_busy += 1
        return []

    def _read(self, job: Job, answered: list[dict[str, Any]]) -> list[Answer]:
        answers = []
        for one in answered:
            meta = one["meta_info"]
            if meta["finish_reason"]["type"] == "abort":
                if job.kind != "aborted":
                    self.faults.append(f"a request was aborted: {meta['finish_reason']}")
                self.counts.aborted += 1
                continue
            self.counts.answers += 1
            self.counts.prompt_tokens += meta["prompt_tokens"]
            self.counts.hits += meta["cached_tokens"] > 0
            self.counts.hit_tokens += meta["cached_tokens"]
            reply = one.get("output_ids", [])
            if len(reply) != job.reply_len:
                self.faults.append(f"{len(reply)} tokens instead of {job.reply_len} for {job.prompt}")
            if not reply:
                self.counts.empty_answers += 1
                continue
            answers.append(Answer(job.prompt, reply, [entry[0] for entry in meta["output_token_logprobs"]]))
        return answers

    # ---- checks ----

    def _compare(self, answers: list[Answer]) -> None:
        """Against one prefill of prompt and reply that reuses no state: each id is the likeliest, as likely as said."""
        with ThreadPoolExecutor(4) as pool:
            for answer, expected in zip(answers, pool.map(self._uncached, answers), strict=True):
                pairs = zip(answer.logprobs, expected, strict=True)
                worst = max(abs(said - (scored if scored is not None else 1e9)) for said, (scored, _) in pairs)
                likeliest = all(best - scored < LOGPROB_TOLERANCE for scored, best in expected)
                self.counts.largest_logprob_difference = max(self.counts.largest_logprob_difference, worst)
                if worst > LOGPROB_TOLERANCE or not likeliest:
                    self.counts.mismatches += 1
                    self.faults.append(f"logprobs differ by {worst:g}, likeliest: {likeliest}, for {answer}")

    def _uncached(self, answer: Answer) -> list[tuple[float, float]]:
        """Logprob of each id of the reply, and of the likeliest id at its place."""
        sent = {
            "input_ids": answer.prompt + answer.reply,
            "sampling_params": {"temperature": 0, "max_new_tokens": 1, "ignore_eos": True},
            "return_logprob": True,
            "logprob_start_len": 0,
            "top_logprobs_num": 1,
        }
        meta = self._server.request("/generate", sent, timeout_s=300)["meta_info"]
        self._own_requests += 1
        if meta["cached_tokens"]:
            self.faults.append(f"the computation to compare with was cached: {meta['cached_tokens']} tokens")
        count = len(answer.reply)
        scored, best = meta["input_token_logprobs"][-count:], meta["input_top_logprobs"][-count:]
        return [(one[0], top[0][0]) for one, top in zip(scored, best, strict=True)]

    def _check_idle(self) -> None:
        """A disconnected request may run on for a step: wait until SGLang says that nothing runs."""
        """A request whose client left runs on for a step: whole pools are what this waits for."""
        deadline = time.monotonic() + IDLE_TIMEOUT_S
        while not pools_whole(self._server):
            if time.monotonic() > deadline:
                self.faults.append(f"slots are missing: {marconi(self._server)['pools']}")
                return
        kept = self._states_kept() - self._kept_before
        sent = self.counts.requests + self.counts.answers + self._own_requests
        if kept > STATES_PER_REQUEST * sent:
            self.faults.append(f"{kept} states were kept of {sent} requests")
        self.counts.idle_points += 1

    def _states_kept(self) -> int:
        return sum(count for name, count in marconi(self._server)["stats"].items() if name.endswith("states_admitted"))


def body(job: Job) -> dict[str, Any]:
    """The request as JSON."""
    parameters = {"temperature": 0, "max_new_tokens": job.reply_len, "ignore_eos": True, "n": job.samples}
    sent: dict[str, Any] = {"input_ids": job.prompt, "sampling_params": parameters, "return_logprob": True}
    return sent | ({"rid": job.rid} if job.rid else {})


def leave(server: TinyServer, sent: dict[str, Any], pieces: int) -> None:
    """Send a request and close the connection after so many pieces of its answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    connection.request("POST", "/generate", json.dumps(sent | {"stream": True}), {"Content-Type": "application/json"})
    if pieces:
        answer = connection.getresponse()
        while pieces and (line := answer.readline()):
            pieces -= line.startswith(b"data: {")
    connection.close()


def pools_whole(server: TinyServer) -> bool:
    """Whether every slot is free or cached, and none in use."""
    pools = marconi(server)["pools"].values()
    return all(pool["locked"] == 0 and pool["free"] + pool["cached"] == pool["total"] for pool in pools)


def memory_mib(server: TinyServer) -> float:
    """Resident memory of the server's processes."""
    assert server.process_group is not None
    leader = psutil.Process(server.process_group)
    return sum(process.memory_info().rss for process in [leader, *leader.children(recursive=True)]) / 2**20


def soak(server: TinyServer, seed: int, go_on: Callable[[Soak], bool]) -> Soak:
    """Rounds while ``go_on`` says so and no fault was found."""
    running = Soak(server, seed, POOL_TOKENS)
    while not running.faults and go_on(running):
        running.round()
    return running
