"""JSON lines with their place, and checked access to their keys."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import math
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import ijson
import numpy as np
import numpy.typing as npt
from backports import zstd

_PROGRESS_LINES = 64


@dataclasses.dataclass(frozen=True)
class Line:
    """One JSON object of a trace file."""

    path: Path
    number: int
    value: dict[str, Any]

    def error(self, message: str) -> ValueError:
        """An error that names the place."""
        return ValueError(f"{self.path}:{self.number}: {message}")

    def get(self, key: str) -> Any:
        """The key's value; it must be there."""
        try:
            return self.value[key]
        except KeyError:
            raise self.error(f"the key {key!r} is missing") from None

    def count(self, key: str, low: int = 0, high: int = 2**31 - 1) -> int:
        """An integer in [low, high]."""
        value = self.get(key)
        if type(value) is not int or not low <= value <= high:
            raise self.error(f"{key} must be an integer in [{low}, {high}], got {_short(value)}")
        return value

    def seconds(self, key: str, scale: float = 1.0) -> float:
        """A finite number times ``scale``."""
        value = self.get(key)
        if type(value) not in (int, float) or not math.isfinite(value):
            raise self.error(f"{key} must be a finite number, got {_short(value)}")
        return float(value) * scale

    def tokens(self, key: str) -> npt.NDArray[np.uint32]:
        """Token ids, uint32."""
        return self._integers(key, np.uint32)

    def hashes(self, key: str) -> npt.NDArray[np.uint64]:
        """Block hashes, uint64."""
        return self._integers(key, np.uint64)

    def _integers(self, key: str, dtype: Any) -> npt.NDArray[Any]:
        value = self.get(key)
        bits = 8 * np.dtype(dtype).itemsize
        rule = f"{key} must be a list of integers in [0, 2^{bits})"
        if not isinstance(value, list):
            raise self.error(f"{rule}, got {_short(value)}")
        if not value:
            return np.empty(0, dtype)
        try:
            array = np.array(value)
            if array.dtype.kind not in "iu":
                # 64-bit hashes of mixed size become floats or objects.
                array = np.array(value, dtype=object)
                if not all(type(item) is int for item in value):
                    raise ValueError
            if array.ndim != 1 or array.min() < 0 or array.max() >= 2**bits:
                raise ValueError
            return np.ascontiguousarray(array.astype(dtype))
        except (ValueError, TypeError, OverflowError):
            bad = next((x for x in value if type(x) is not int or not 0 <= x < 2**bits), value)
            raise self.error(f"{rule}, got {_short(bad)}") from None


def json_lines(path: Path, on_progress: Callable[[float], None] | None = None) -> Iterator[Line]:
    """The objects of a JSON lines file or of one JSON array, compressed (gzip, zstd) or not; empty lines are skipped.

    Read as a stream: no more than one object is held. In an array the number of a `Line` counts objects.

    Raises:
        ValueError: an object is none, or the file is not valid gzip, zstd or UTF-8.
    """
    size = max(1, path.stat().st_size)
    number = 0
    with open(path, "rb") as file:
        try:
            content = _decompressed(file)
            objects = _array_items if content.peek(1024).lstrip()[:1] == b"[" else _line_items
            for number, value in objects(path, content):
                if on_progress is not None and number % _PROGRESS_LINES == 0:
                    on_progress(file.tell() / size)
                if not isinstance(value, dict):
                    raise ValueError(f"{path}:{number}: must be a JSON object, got {_short(value)}")
                yield Line(path, number, value)
        except (EOFError, gzip.BadGzipFile, zlib.error, zstd.ZstdError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}:{number + 1}: cannot be read: {error}") from error


def open_text(path: Path) -> IO[str]:
    """Open a file for writing, compressed as its name's end says (.gz, .zst)."""
    if path.suffix == ".gz":
        return gzip.open(path, "wt", encoding="utf-8")
    if path.suffix == ".zst":
        return zstd.open(path, "wt", encoding="utf-8")
    return path.open("w", encoding="utf-8")


def _decompressed(file: io.BufferedReader) -> io.BufferedReader:
    magic = file.read(4)
    file.seek(0)
    if magic[:2] == b"\x1f\x8b":
        return io.BufferedReader(gzip.GzipFile(fileobj=file))
    if magic == b"\x28\xb5\x2f\xfd":
        return io.BufferedReader(zstd.ZstdFile(file))
    return file


def _line_items(path: Path, content: IO[bytes]) -> Iterator[tuple[int, Any]]:
    for number, text in enumerate(io.TextIOWrapper(content, encoding="utf-8"), start=1):
        if text.strip():
            try:
                yield number, json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}:{number}: not JSON: {error}") from None


def _array_items(path: Path, content: IO[bytes]) -> Iterator[tuple[int, Any]]:
    number = 0
    try:
        for number, value in enumerate(ijson.items(content, "item", use_float=True), start=1):
            yield number, value
    except ijson.JSONError as error:
        raise ValueError(f"{path}:{number + 1}: not JSON: {error}") from None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
