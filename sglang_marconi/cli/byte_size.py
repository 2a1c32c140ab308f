"""Byte sizes as people write them."""

from __future__ import annotations

import math
import re
from typing import Any

import click

_UNITS = {"": 1, "b": 1} | {
    prefix + suffix: base**power
    for power, prefix in enumerate("kmgt", start=1)
    for suffix, base in (("", 1000), ("b", 1000), ("ib", 1024))
}
_SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[0-9]+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def parse_byte_size(text: str) -> int:
    """``5GB`` is 5e9 bytes, ``5GiB`` is 5 * 2^30, a bare number counts bytes.

    Raises:
        ValueError: not a size.
    """
    match = _SIZE.fullmatch(text)
    factor = _UNITS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"a size must be a number with a unit or none (kB, MB, GB, GiB, ...), got {text!r}")
    size = float(match[1]) * factor
    if not math.isfinite(size) or size > 2**60:
        raise ValueError(f"a size must be at most 2^60 bytes, got {text!r}")
    return round(size)


class ByteSize(click.ParamType):
    """An option's size in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_byte_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class ByteSizes(click.ParamType):
    """An option's sizes in bytes, separated by commas."""

    name = "size,size,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        if isinstance(value, list):
            return value
        try:
            return [parse_byte_size(size) for size in value.split(",")]
        except ValueError as error:
            self.fail(str(error), param, ctx)
