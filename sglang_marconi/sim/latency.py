"""From hits to seconds: how long prefills take, and a simple server in front of them."""

from __future__ import annotations

import dataclasses
import heapq
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sglang_marconi._core import Trace

Milliseconds = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class PrefillTime:
    """Milliseconds of a prefill by the tokens that it computes: a table, straight between its points.

    Below the first point the time is the first point's; above the last one the last slope goes on.

    Args:
        tokens: of each point, rising; at least two points.
        ms: of each point, falling nowhere.
    """

    tokens: Sequence[float]
    ms: Sequence[float]

    def __post_init__(self) -> None:
        if len(self.tokens) < 2 or len(self.tokens) != len(self.ms):
            raise ValueError(
                f"a table of prefill times needs two points or more, got {len(self.tokens)} and {len(self.ms)}"
            )
        if not (np.all(np.diff(self.tokens) > 0) and np.all(np.diff(self.ms) >= 0) and self.ms[0] >= 0):
            raise ValueError("a table of prefill times must have rising tokens and times that never fall")

    def __call__(self, computed_tokens: npt.NDArray[Any]) -> Milliseconds:
        """Milliseconds for each count of tokens."""
        tokens = np.asarray(computed_tokens, np.float64)
        inside = np.interp(tokens, self.tokens, self.ms)
        slope = (self.ms[-1] - self.ms[-2]) / (self.tokens[-1] - self.tokens[-2])
        return inside + slope * np.maximum(0.0, tokens - self.tokens[-1])


#: Jamba-1.5-Mini as published with Marconi: ms = 17.81 + 0.05296 x tokens (R2 0.9987, 500 to 32k tokens), flat below.
JAMBA_MINI = PrefillTime(tokens=(500, 32_000), ms=(17.81 + 0.05296 * 500, 17.81 + 0.05296 * 32_000))


@dataclasses.dataclass(frozen=True)
class ServerModel:
    """A server that prefills one request at a time, in chunks, and decodes the others in between.

    Args:
        prefill: time of a prefill alone on the machine.
        decode_ms: of one step, whatever the number of requests in it.
        chunked_prefill_size: tokens between two decode steps while a long prompt is prefilled.
        max_running_requests: requests in prefill or decode; others wait.
    """

    prefill: PrefillTime = JAMBA_MINI
    decode_ms: float = 20.0
    chunked_prefill_size: int = 8192
    max_running_requests: int = 256

    def serve(self, trace: Trace, hit_tokens: npt.NDArray[Any]) -> ServedTimes:
        """Times of all requests, first come, first served.

        A chunk of prefill is followed by one decode step as long as others decode, and a request's reply takes a step a
        token, each slowed down by the share of time that prefills take.

        Args:
            trace: when requests arrive and how long prompts and replies are.
            hit_tokens: of each request, as a replay answers them.
        """
        computed = trace.prompt_lengths().astype(np.int64) - hit_tokens
        alone_ms = self.prefill(computed)
        chunks = np.maximum(1, -(-computed // self.chunked_prefill_size))
        arrivals_ms = trace.arrivals_s() * 1e3
        replies = trace.reply_lengths()
        ttft_ms = np.empty(len(trace))
        running: list[float] = []  # when each running request ends
        free_ms = busy_ms = end_ms = 0.0
        first_ms = float(arrivals_ms[0]) if len(trace) else 0.0
        for number in range(len(trace)):
            start_ms = max(float(arrivals_ms[number]), free_ms)
            while running and running[0] <= start_ms:
                heapq.heappop(running)
            while len(running) >= self.max_running_requests:
                start_ms = max(start_ms, heapq.heappop(running))
            decode_ms = self.decode_ms * float(chunks[number]) if running else 0.0
            free_ms = start_ms + float(alone_ms[number]) + decode_ms
            busy_ms += float(alone_ms[number])
            ttft_ms[number] = free_ms - arrivals_ms[number]
            prefill_share = min(0.9, busy_ms / max(free_ms - first_ms, 1e-9))
            done_ms = free_ms + int(replies[number]) * self.decode_ms / (1 - prefill_share)
            heapq.heappush(running, done_ms)
            end_ms = max(end_ms, done_ms)
        return ServedTimes(alone_ms, ttft_ms, max(0.0, end_ms - first_ms) / 1e3)


@dataclasses.dataclass(frozen=True)
class ServedTimes:
    """What a server model answers.

    Args:
        prefill_ms: of each request, alone on the machine: its TTFT on an idle server.
        ttft_ms: of each request, with its time in the queue.
        duration_s: from the first arrival to the last token.
    """

    prefill_ms: Milliseconds
    ttft_ms: Milliseconds
    duration_s: float

    def summary(self) -> dict[str, Any]:
        """Percentiles and throughput, ready for JSON."""

        def percentiles(values: Milliseconds) -> dict[str, float]:
            cuts = np.percentile(values, (50, 95, 99)) if len(values) else (0.0, 0.0, 0.0)
            return {f"p{p}": round(float(cut), 3) for p, cut in zip((50, 95, 99), cuts, strict=True)}

        return {
            "idle_ttft_ms": percentiles(self.prefill_ms),
            "ttft_ms": percentiles(self.ttft_ms),
            "requests_per_second": len(self.ttft_ms) / self.duration_s if self.duration_s else None,
        }


def fit_prefill_time(tokens: Sequence[int], ms: Sequence[float]) -> tuple[PrefillTime, dict[str, float]]:
    """A table from measurements, and how well it and a straight line predict them.

    Args:
        tokens: of each measured prefill.
        ms: how long it took.

    Returns:
        Medians by length, made to fall nowhere; and ``intercept_ms``, ``ms_per_token`` and ``r2`` of the line through
        all, ``median_error`` and ``p95_error`` of the table as shares of the measured time.

    Raises:
        ValueError: fewer than two different lengths.
    """
    x, y = np.asarray(tokens, np.float64), np.asarray(ms, np.float64)
    lengths = np.unique(x)
    if len(lengths) < 2:
        raise ValueError(f"a fit needs two different lengths or more, got {len(lengths)}")
    medians = np.maximum.accumulate([float(np.median(y[x == length])) for length in lengths])
    table = PrefillTime(tuple(map(float, lengths)), tuple(map(float, medians)))
    slope, intercept = np.polyfit(x, y, 1)
    residual, spread = np.sum((y - slope * x - intercept) ** 2), np.sum((y - y.mean()) ** 2)
    errors = np.abs(table(x) - y) / y
    return table, {
        "intercept_ms": float(intercept),
        "ms_per_token": float(slope),
        "r2": float(1 - residual / spread) if spread else 1.0,
        "median_error": float(np.median(errors)),
        "p95_error": float(np.percentile(errors, 95)),
    }


def load_latency(name: str) -> ServerModel:
    """The server model of a file that ``sglang-marconi latency`` wrote, or of the name ``jamba-mini``.

    Raises:
        ValueError: neither, or a file without the keys or with values that cannot be.
    """
    if name == "jamba-mini":
        return ServerModel()
    path = Path(name)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        prefill = PrefillTime(tuple(record["prefill"]["tokens"]), tuple(record["prefill"]["ms"]))
        return ServerModel(prefill, float(record["decode_ms"]), int(record["chunked_prefill_size"]))
    except OSError as error:
        raise ValueError(f"latency must be jamba-mini or a file of times, got {name!r} ({error.strerror})") from error
    except KeyError as missing:
        raise ValueError(
            f"{path}: the key {missing} is missing; `sglang-marconi latency` writes such files"
        ) from missing
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: no table of times: {error}") from error
