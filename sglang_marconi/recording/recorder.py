"""Follows a live cache's requests and writes them to a trace."""

from __future__ import annotations

import atexit
import dataclasses
import os
import secrets
import time
from collections import OrderedDict
from typing import Any

import numpy as np

from sglang_marconi._core import PrefixHasher
from sglang_marconi.recording.trace_files import Tokens, TraceFiles

#: Requests that may wait for an earlier one to end; one that was aborted while it was retracted never does.
_MOST_OPEN = 10_000


@dataclasses.dataclass
class _Recorded:
    """A request from its arrival until its line is written."""

    arrival_s: float
    #: What the trace shows of the prompt, and of the reply once it is complete.
    prompt: Tokens
    hashes: Tokens
    last_link: int
    reply: Tokens | None = None


class TraceRecorder:
    """Writes what the cache is asked for, in the order in which it was asked.

    A trace shows a keyed hash of each prefix in place of its last token: equal prefixes stay equal, nothing else
    can be told without the key, which this process draws and never writes. Tokens are written only when asked for.

    Args:
        files: where the trace goes.
        with_tokens: write the tokens themselves.
    """

    purpose = "recording a trace"

    def __init__(self, files: TraceFiles, with_tokens: bool) -> None:
        self._files = files
        self._with_tokens = with_tokens
        self._hasher = PrefixHasher(secrets.randbits(64), secrets.randbits(64))
        self._namespaces: dict[tuple[str | None, str | None], int] = {}
        self._start_s = time.monotonic()
        #: By the request's name, in order of arrival; the first has not ended.
        self._open: OrderedDict[str, _Recorded] = OrderedDict()
        atexit.register(files.close)

    @property
    def path(self) -> str:
        """The file being written."""
        return str(self._files.path)

    def request_computed(self, req: Any, _root: Any) -> None:
        """A piece of the request's prompt was computed."""
        if req.rid in self._open:  # its next piece, or once more after a retraction
            return
        namespace = self._namespaces.setdefault((req.extra_key, req.cache_salt or None), len(self._namespaces))
        arrival_s = time.monotonic() - self._start_s
        prompt = _as_uint32(req.origin_input_ids)
        hashes, link = self._hasher.hash(prompt, namespace)
        self._open[req.rid] = _Recorded(arrival_s, self._shown(prompt, hashes), hashes, link)

    def request_finished(self, req: Any) -> None:
        """The request leaves, with its reply."""
        recorded = self._open.get(req.rid)
        if recorded is None:
            return
        reply = _as_uint32(req.output_ids)
        hashes, _ = self._hasher.hash(reply, recorded.last_link)
        recorded.reply = self._shown(reply, hashes)
        recorded.hashes = np.concatenate([recorded.hashes, hashes])
        self._write_ended()

    def _write_ended(self) -> None:
        while self._open:
            first = next(iter(self._open.values()))
            if first.reply is None and len(self._open) <= _MOST_OPEN:
                break
            self._open.popitem(last=False)
            if first.reply is not None:
                self._files.write(first.arrival_s, first.prompt, first.reply, prefix_hashes=first.hashes)

    def _shown(self, tokens: Tokens, hashes: Tokens) -> Tokens:
        return tokens if self._with_tokens else hashes

    def reset(self) -> None:
        """The cache was flushed, which a trace does not show."""


def trace_name() -> str:
    """A name for this process's trace files that no other process takes."""
    return f"trace-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}"


def _as_uint32(tokens: Any) -> Tokens:
    return np.asarray(tokens, dtype=np.int64).astype(np.uint32)
