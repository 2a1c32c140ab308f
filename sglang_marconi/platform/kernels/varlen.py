"""Several sequences in one flat batch, seen as equal pieces on a grid."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch


class Pieces(NamedTuple):
    """A flat batch of sequences cut into pieces of at most ``size`` tokens.

    Attributes:
        token: (pieces, size) int64, position of each piece's tokens in the flat batch; 0 where absent.
        present: (pieces, size) bool, whether that place holds a token of the piece's sequence.
        sequence: number of the sequence of each piece.
        start: flat position of the first place of each piece (before the sequence where it starts off the grid).
        first: index of each sequence's first piece, and the number of pieces at the end.
    """

    token: torch.Tensor
    present: torch.Tensor
    sequence: list[int]
    start: list[int]
    first: list[int]


def cut_on_grid(bounds: list[int], size: int, *, aligned_to_batch: bool) -> Pieces:
    """Cut each sequence ``[bounds[i], bounds[i + 1])`` of a flat batch into pieces of ``size`` tokens.

    Args:
        bounds: flat start of each sequence and the end of the last.
        size: tokens per piece.
        aligned_to_batch: True puts the cuts at multiples of ``size`` in the flat batch (Mamba-2's chunk grid), False
            at multiples counted from each sequence's start (gated delta net).
    """
    sequence: list[int] = []
    start: list[int] = []
    first = [0]
    for index, (begin, end) in enumerate(pairwise(bounds)):
        origin = begin - begin % size if aligned_to_batch else begin
        starts = range(origin, end, size) if end > begin else range(0)
        sequence.extend([index] * len(starts))
        start.extend(starts)
        first.append(len(start))
    begins = torch.tensor([bounds[i] for i in sequence], dtype=torch.int64)
    ends = torch.tensor([bounds[i + 1] for i in sequence], dtype=torch.int64)
    token = torch.tensor(start, dtype=torch.int64)[:, None] + torch.arange(size)
    present = (token >= begins[:, None]) & (token < ends[:, None])
    return Pieces(token.where(present, torch.zeros_like(token)), present, sequence, start, first)
