"""Token traces in files that rotate."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.uint32]

_MOST_SESSIONS = 100_000
_MEGABYTE = 10**6


class TraceFiles:
    """Writes requests as lines of a compact token trace: what a prompt adds to an earlier prompt and reply.

    A request goes on with a session when its prompt begins with the session's last prompt and reply. Each file
    can be read alone: sessions begin anew in it.

    Args:
        folder: made if it is missing.
        name: what the files' names begin with.
        file_mb: megabytes after which the next file begins.
        most_files: the oldest file is deleted when there are more.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(self, folder: Path, name: str, file_mb: int, most_files: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._name = name
        self._file_bytes = file_mb * _MEGABYTE
        self._most_files = most_files
        self._files: list[Path] = []
        self._sessions = 0
        #: Hash of a session's last prompt and reply -> the session, its turn and their tokens.
        self._ends: OrderedDict[int, tuple[int, int, int]] = OrderedDict()
        self._open_next()

    @property
    def path(self) -> Path:
        """The file being written."""
        return self._files[-1]

    def write(self, arrival_s: float, prompt: Tokens, reply: Tokens, prefix_hashes: Tokens) -> None:
        """Append a request.

        Args:
            arrival_s: seconds on the trace's clock.
            prompt: tokens, or what stands for them.
            reply: likewise.
            prefix_hashes: of prompt and reply: equal as far as two requests share a prefix.
        """
        session, turn, keep = self._continued(prefix_hashes[: len(prompt)])
        line: dict[str, Any] = {
            "session_id": session,
            "turn_id": turn,
            "ts": round(arrival_s, 3),
            "num_input_tokens": len(prompt),
            "num_output_tokens": len(reply),
            "keep": keep,
            "delta": prompt[keep:].tolist(),
            "output_tokens": reply.tolist(),
        }
        text = json.dumps(line, separators=(",", ":")) + "\n"
        self._file.write(text)
        self._file.flush()
        self._written_bytes += len(text)
        self._remember(prefix_hashes, session, turn)
        if self._written_bytes >= self._file_bytes:
            self._file.close()
            self._open_next()

    def close(self) -> None:
        """End the file being written."""
        self._file.close()

    def _continued(self, hashes: Tokens) -> tuple[int, int, int]:
        """Session, turn and kept tokens of a prompt; a new session's where it goes on with none."""
        ends = [end for end in self._ends.keys() & set(hashes.tolist()) if self._is_prefix(end, hashes)]
        if ends:
            session, turn, length = self._ends.pop(max(ends, key=lambda end: self._ends[end][2]))
            return session, turn + 1, length
        self._sessions += 1
        return self._sessions, 0, 0

    def _is_prefix(self, end: int, hashes: Tokens) -> bool:
        length = self._ends[end][2]
        return length <= len(hashes) and int(hashes[length - 1]) == end

    def _remember(self, hashes: Tokens, session: int, turn: int) -> None:
        if len(hashes):
            self._ends[int(hashes[-1])] = (session, turn, len(hashes))
        if len(self._ends) > _MOST_SESSIONS:
            self._ends.popitem(last=False)

    def _open_next(self) -> None:
        number = len(self._files) + 1
        path = self._folder / f"{self._name}-{number:04d}.jsonl"
        self._file: IO[str] = path.open("x", encoding="utf-8")
        self._files.append(path)
        if len(self._files) > self._most_files:
            self._files[-1 - self._most_files].unlink(missing_ok=True)
        self._written_bytes = 0
        self._ends.clear()
