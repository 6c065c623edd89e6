"""XXH32, the 32-bit hash that consistent hashing places keys by, of many texts at once.

Source: the xxHash specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_PRIMES = tuple(
    np.uint32(prime) for prime in (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
)
_STRIPE_BYTES = 16
_LANES = 4
_WORD_BYTES = 4

Words = np.ndarray[Any, np.dtype[np.uint32]]


def xxh32(texts: Sequence[bytes]) -> Words:
    """XXH32 of every text, seed 0."""
    hashes = np.zeros(len(texts), dtype=np.uint32)
    by_length: dict[int, list[int]] = {}
    for position, text in enumerate(texts):
        by_length.setdefault(len(text), []).append(position)
    with np.errstate(over="ignore"):
        for length, positions in by_length.items():
            joined = b"".join(texts[position] for position in positions)
            rows = np.frombuffer(joined, dtype=np.uint8).reshape(len(positions), length)
            hashes[positions] = _of_equal_length(rows)
    return hashes


def _of_equal_length(rows: np.ndarray[tuple[int, int], np.dtype[np.uint8]]) -> Words:
    first, second, third, fourth, fifth = _PRIMES
    count, length = rows.shape
    words_end = length // _WORD_BYTES * _WORD_BYTES
    words: Words = np.ascontiguousarray(rows[:, :words_end]).view("<u4").reshape(count, -1)
    done = 0
    if length >= _STRIPE_BYTES:
        starts = (first + second, second, np.uint32(0), np.uint32(0) - first)
        lanes = [np.full(count, start, dtype=np.uint32) for start in starts]
        while done + _LANES <= words.shape[1]:
            for lane in range(_LANES):
                mixed = lanes[lane] + words[:, done + lane] * second
                lanes[lane] = _rotated(mixed, 13) * first
            done += _LANES
        value = (
            _rotated(lanes[0], 1)
            + _rotated(lanes[1], 7)
            + _rotated(lanes[2], 12)
            + _rotated(lanes[3], 18)
        )
    else:
        value = np.full(count, fifth, dtype=np.uint32)
    value = value + np.uint32(length)
    for position in range(done, words.shape[1]):
        value = _rotated(value + words[:, position] * third, 17) * fourth
    for position in range(words_end, length):
        value = _rotated(value + rows[:, position].astype(np.uint32) * fifth, 11) * first
    value = (value ^ (value >> np.uint32(15))) * second
    value = (value ^ (value >> np.uint32(13))) * third
    return value ^ (value >> np.uint32(16))


def _rotated(value: Words, bits: int) -> Words:
    return (value << np.uint32(bits)) | (value >> np.uint32(32 - bits))
