"""Hadoop's MurmurHash2 over batches of record keys, as Hudi's bloom filters chain it.

A batch is cut into blocks of keys of one length, so that every step of the hash is one numpy
operation over a block that stays in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tideline.errors import InvalidDataError

_BLOCK_KEYS = 8192
_M = np.uint32(0x5BD1E995)


class KeyBatch:
    """The UTF-8 bytes of a batch of keys, and where each key lies in them."""

    def __init__(self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> None:
        self._data = data
        self._starts = offsets[:-1]
        self._lengths = np.diff(offsets)

    @classmethod
    def of(cls, keys: Any) -> KeyBatch:
        array = _large_strings(keys)
        if array.null_count:
            raise InvalidDataError("null record key in a bloom filter", value=array.null_count)
        _, offsets_buffer, data_buffer = array.buffers()
        if not len(array):
            return cls(np.zeros(0, np.uint8), np.zeros(1, np.int64))
        offsets = np.frombuffer(offsets_buffer, np.int64)
        batch = cls(
            np.frombuffer(data_buffer or b"", np.uint8),
            offsets[array.offset : array.offset + len(array) + 1],
        )
        if not batch._lengths.all():
            raise InvalidDataError("empty record key in a bloom filter")
        return batch

    def __len__(self) -> int:
        return len(self._lengths)

    def blocks(self, part: slice) -> Iterator[KeyBlock]:
        """The keys of `part` in blocks of one length each, small enough to stay in the cache."""
        indices = np.arange(len(self))[part]
        lengths = self._lengths[indices]
        for length in np.unique(lengths):
            of_length = indices[lengths == length]
            columns = np.arange(length)
            for start in range(0, len(of_length), _BLOCK_KEYS):
                chosen = of_length[start : start + _BLOCK_KEYS]
                yield KeyBlock.of(chosen, self._data[self._starts[chosen, None] + columns])


@dataclass(frozen=True, slots=True)
class KeyBlock:
    """Keys of one length, prepared for hashing with any seed."""

    indices: npt.NDArray[np.int64]
    length: int
    words: tuple[npt.NDArray[np.uint32], ...]
    tail: npt.NDArray[np.uint32] | None

    @classmethod
    def of(cls, indices: npt.NDArray[np.int64], characters: npt.NDArray[np.uint8]) -> KeyBlock:
        """`characters` has one row of bytes per key."""
        length = characters.shape[1]
        whole = np.ascontiguousarray(characters[:, : length - length % 4])
        words = tuple(_mixed(word) for word in whole.view("<u4").T) if whole.size else ()
        return cls(indices, length, words, _tail(characters))

    def no_hashes(self) -> npt.NDArray[np.uint32]:
        """The seeds of the first hashes."""
        return np.zeros(len(self.indices), dtype=np.uint32)

    def hash(self, seeds: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """The MurmurHash2 of every key, each with its seed."""
        h = seeds ^ np.uint32(self.length)
        for word in self.words:
            h *= _M
            h ^= word
        if self.tail is not None:
            h ^= self.tail
            h *= _M
        h ^= h >> np.uint32(13)
        h *= _M
        h ^= h >> np.uint32(15)
        return h

    def keep(self, chosen: npt.NDArray[np.bool_]) -> KeyBlock:
        """Only the chosen keys."""
        words = tuple(word[chosen] for word in self.words)
        tail = None if self.tail is None else self.tail[chosen]
        return KeyBlock(self.indices[chosen], self.length, words, tail)


def bit_positions(hashes: npt.NDArray[np.uint32], bit_count: int) -> npt.NDArray[np.intp]:
    """Java's abs(hash % bits); abs leaves the bits of the smallest int alone, as it should."""
    magnitudes = np.abs(hashes.view(np.int32)).view(np.uint32)
    bits = np.uint32(bit_count)
    # numpy divides by one divisor much faster than it takes the remainder.
    return (magnitudes - magnitudes // bits * bits).astype(np.intp)


def _tail(characters: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32] | None:
    """The last bytes as Hadoop mixes them in: counted from the end and sign-extended.

    This is not the tail of standard MurmurHash2.
    """
    left = characters.shape[1] % 4
    if not left:
        return None
    ends = characters.view(np.int8).astype(np.int32)
    tail = np.zeros(len(characters), dtype=np.int32)
    for distance in range(1, left + 1):
        tail ^= ends[:, -distance] << (8 * (distance - 1))
    return tail.view(np.uint32)


def _mixed(word: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    k = np.ascontiguousarray(word) * _M
    k ^= k >> np.uint32(24)
    k *= _M
    return k


def _large_strings(keys: Any) -> Any:
    """`keys` as one Arrow array of strings with 64 bit offsets."""
    if not isinstance(keys, pa.Array | pa.ChunkedArray):
        keys = pa.array(keys, pa.large_string())
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.cast(pa.large_string()).combine_chunks()
    return keys.cast(pa.large_string())
