"""Real conversations for a tiny model, replayed against a running server.

A session's text is scaled to the model: every ``stride``-th token is kept and token ids are folded
into its vocabulary, so prefixes that two sessions share stay shared. The replies are the ones that
the server gives: each next prompt repeats them, as a chat client does.
"""

from __future__ import annotations

import dataclasses
import gzip
import importlib.resources
import json
import random
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from sglang_marconi.platform.tokenizer import FIRST_BYTE_TOKEN_ID, VOCAB_SIZE

#: Token ids of the tiny models that stand for text.
TEXT_TOKENS = range(FIRST_BYTE_TOKEN_ID, VOCAB_SIZE)


@dataclasses.dataclass(frozen=True)
class Turn:
    """One request of a session: tokens that the user or a tool adds, and how long the reply is."""

    new_tokens: list[int]
    reply_len: int


@dataclasses.dataclass
class Session:
    """The turns of one conversation."""

    turns: list[Turn]


@dataclasses.dataclass(frozen=True)
class Served:
    """What one request cost: tokens, and seconds to the first token and to the last.

    ``repeated_tokens`` of the prompt are the session's last prompt and reply, 0 in its first turn.
    """

    prompt_tokens: int
    cached_tokens: int
    repeated_tokens: int
    ttft_s: float
    latency_s: float
    reply: list[int]

    @property
    def lost_tokens(self) -> int:
        """Tokens of the session's last turn that were computed again."""
        return max(0, self.repeated_tokens - self.cached_tokens)


def sample_sessions() -> list[dict[str, Any]]:
    """The session trace that ships with the package (tau-bench airline, MIT licence)."""
    path = importlib.resources.files("sglang_marconi") / "data" / "tau-airline-sample.jsonl.gz"
    with importlib.resources.as_file(path) as file:
        return read_sessions(file)


def read_sessions(path: Path) -> list[dict[str, Any]]:
    """The lines of a gzipped session trace: ``session``, ``tokens``, ``turns``."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def scale(trace: Iterable[dict[str, Any]], stride: int, vocab: range = TEXT_TOKENS) -> list[Session]:
    """Sessions small enough for a tiny model.

    Args:
        trace: session trace lines.
        stride: keep one token in so many.
        vocab: token ids that the model may see.
    """
    sessions = []
    for line in trace:
        tokens = [vocab[token % len(vocab)] for token in line["tokens"][::stride]]
        turns, end = [], 0
        for start, stop in line["turns"]:
            new = tokens[end // stride : start // stride]
            turns.append(Turn(new, max(1, (stop - start) // stride)))
            end = stop
        sessions.append(Session(turns))
    return sessions


def interleave(sessions: list[Session], active: int, seed: int) -> Iterator[int]:
    """Indexes of sessions, a turn each, with at most ``active`` conversations open at a time."""
    rng = random.Random(seed)
    left = [len(session.turns) for session in sessions]
    open_sessions = list(range(min(active, len(sessions))))
    upcoming = iter(range(len(open_sessions), len(sessions)))
    while open_sessions:
        session = rng.choice(open_sessions)
        yield session
        left[session] -= 1
        if not left[session]:
            open_sessions.remove(session)
            open_sessions.extend(index for index in [next(upcoming, None)] if index is not None)


def replay(
    url: str,
    sessions: list[Session],
    active: int,
    seed: int = 0,
    on_request: Callable[[Served], None] = lambda served: None,
) -> list[Served]:
    """Send the sessions' turns one after the other; the next prompt repeats the server's replies.

    Args:
        url: the server, ``http://host:port``.
        sessions: conversations, as ``scale`` makes them.
        active: conversations open at a time.
        seed: order of the turns.
        on_request: called after each request.
    """
    histories: list[list[int]] = [[] for _ in sessions]
    next_turn = [0] * len(sessions)
    results = []
    for index in interleave(sessions, active, seed):
        turn = sessions[index].turns[next_turn[index]]
        prompt = histories[index] + turn.new_tokens
        served = generate_streaming(url, prompt, turn.reply_len, repeated_tokens=len(histories[index]))
        histories[index] = prompt + served.reply
        next_turn[index] += 1
        results.append(served)
        on_request(served)
    return results


def generate_streaming(url: str, prompt: list[int], reply_len: int, repeated_tokens: int = 0) -> Served:
    """One greedy request of exactly ``reply_len`` tokens over the server's streaming API."""
    body = {
        "input_ids": prompt,
        "stream": True,
        "sampling_params": {"temperature": 0, "max_new_tokens": reply_len, "ignore_eos": True},
    }
    request = urllib.request.Request(f"{url}/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
    start, ttft, last = time.perf_counter(), None, None
    with urllib.request.urlopen(request, timeout=600) as response:
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            last = json.loads(line[len(b"data: ") :])
            if ttft is None:
                ttft = time.perf_counter() - start
    if last is None or ttft is None:
        raise RuntimeError(f"{url}/generate answered without a token")
    meta = last["meta_info"]
    return Served(
        prompt_tokens=meta["prompt_tokens"],
        cached_tokens=meta["cached_tokens"],
        repeated_tokens=repeated_tokens,
        ttft_s=ttft,
        latency_s=time.perf_counter() - start,
        reply=list(last["output_ids"]),
    )


def read_metrics(url: str) -> dict[str, float]:
    """The server's Prometheus metrics, summed over labels (needs ``--enable-metrics``)."""
    totals: dict[str, float] = {}
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as response:
        for line in response.read().decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.split("{")[0].split(" ")[0], float(line.rsplit(" ", 1)[1])
                totals[name] = totals.get(name, 0.0) + value
    return totals
