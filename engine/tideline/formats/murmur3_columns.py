"""MurmurHash3 (x86, 32 bit, seed 0) of whole columns, as Iceberg's bucket transform takes it.

Values of one length are hashed together, so that every step is one numpy operation.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint32]

_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_M, _N = np.uint32(5), np.uint32(0xE6546B64)
_BLOCK_VALUES = 8192


def hash_longs(values: npt.NDArray[np.int64]) -> Hashes:
    """Of the 8 bytes of each number, little-endian."""
    words = np.ascontiguousarray(values, dtype="<i8").view("<u4").reshape(-1, 2)
    return _finished(_stirred([words[:, 0], words[:, 1]], len(values)), 8)


def hash_bytes(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Hashes:
    """Of the values that lie one after another in `data`, cut at `offsets`."""
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes = np.empty(len(lengths), dtype=np.int32)
    for length in np.unique(lengths).tolist():
        (chosen,) = np.nonzero(lengths == length)
        columns = np.arange(length)
        for at in range(0, len(chosen), _BLOCK_VALUES):
            block = chosen[at : at + _BLOCK_VALUES]
            hashes[block] = hash_rows(data[starts[block, None] + columns])
    return hashes


def hash_rows(values: npt.NDArray[np.uint8]) -> Hashes:
    """Of values of one length, a row of bytes each."""
    count, length = values.shape
    whole = length - length % 4
    body = np.ascontiguousarray(values[:, :whole])
    words = list(body.view("<u4").reshape(count, whole // 4).T) if whole else []
    hashes = _stirred(words, count)
    if length % 4:
        tail = np.zeros(count, dtype=np.uint32)
        for place in range(length % 4):
            tail |= values[:, whole + place].astype(np.uint32) << np.uint32(8 * place)
        hashes ^= _mixed(tail)
    return _finished(hashes, length)


def _stirred(words: list[Words], count: int) -> Words:
    hashes = np.zeros(count, dtype=np.uint32)
    for word in words:
        hashes ^= _mixed(word)
        hashes = _rotated(hashes, 13) * _M + _N
    return hashes


def _mixed(word: Words) -> Words:
    return _rotated(word.astype(np.uint32) * _C1, 15) * _C2


def _rotated(words: Words, bits: int) -> Words:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _finished(hashes: Words, length: int) -> Hashes:
    hashes = hashes ^ np.uint32(length)
    hashes ^= hashes >> np.uint32(16)
    hashes *= np.uint32(0x85EBCA6B)
    hashes ^= hashes >> np.uint32(13)
    hashes *= np.uint32(0xC2B2AE35)
    hashes ^= hashes >> np.uint32(16)
    return hashes.view(np.int32)
