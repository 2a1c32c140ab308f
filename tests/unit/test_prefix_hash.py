"""Keyed hashes of prefixes: the published function, and equal exactly as far as prefixes are."""

from __future__ import annotations

import random

import numpy as np

from sglang_marconi._core import PrefixHasher


def as_tokens(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.uint32)


def test_a_link_is_siphash_2_4() -> None:
    """The reference vector of twelve bytes 00 01 ... 0b with the key 00 01 ... 0f."""
    hasher = PrefixHasher(0x0706050403020100, 0x0F0E0D0C0B0A0908)
    hashes, link = hasher.hash(as_tokens([0x0B0A0908]), seed=0x0706050403020100)
    assert link == 0x751E8FBC860EE5FB
    assert hashes.tolist() == [link & 0xFFFFFFFF]


def test_hashes_are_equal_as_far_as_the_prefix() -> None:
    rng = random.Random(1)
    hasher = PrefixHasher(rng.getrandbits(64), rng.getrandbits(64))
    for _ in range(200):
        one = [rng.randrange(4) for _ in range(rng.randrange(1, 60))]
        other = one[: rng.randrange(len(one) + 1)] + [rng.randrange(4) for _ in range(30)]
        shared = next((i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))
        a, b = (hasher.hash(as_tokens(tokens), 0)[0].tolist() for tokens in (one, other))
        assert a[:shared] == b[:shared]
        assert not {(i, x) for i, x in enumerate(a[shared:])} & {(i, x) for i, x in enumerate(b[shared:])}


def test_a_reply_goes_on_where_its_prompt_ended() -> None:
    hasher = PrefixHasher(1, 2)
    whole, end = hasher.hash(as_tokens([5, 6, 7, 8]), 3)
    first, link = hasher.hash(as_tokens([5, 6]), 3)
    rest, last = hasher.hash(as_tokens([7, 8]), link)
    assert [*first, *rest] == whole.tolist() and last == end
    assert hasher.hash(as_tokens([]), 3)[1] == 3


def test_another_key_or_seed_gives_other_hashes() -> None:
    tokens = as_tokens(list(range(50)))
    hashes = [
        PrefixHasher(*key).hash(tokens, seed)[0].tolist() for key, seed in (((1, 2), 0), ((1, 3), 0), ((1, 2), 1))
    ]
    assert len(set(map(tuple, hashes))) == 3
