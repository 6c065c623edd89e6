"""Hudi's bloom filter of record keys, as stored in the footer of every base file.

A filter is one or more rows of bits. A key sets `hash_count` bits of one row; it may be present if
all of its bits are set in any row. The dynamic filter (type DYNAMIC_V0):

1. It begins with one row. Keys go to the last row until that has `keys_per_row` of them.
2. Then a row is added, as long as rows * keys_per_row is below `max_entries`.
3. Then no row is added any more: the next key goes to row 0, and later ones to row 0, 1, ... in
   turn. Only the rate of false positives rises.

The bits of a key come from MurmurHash2 as Hadoop has it, chained: each hash seeds the next one.
Sources: Hudi's InternalDynamicBloomFilter, Hadoop's BloomFilter, HashFunction and MurmurHash.
Everything here is vectorised over keys; results are byte-identical to Hudi's.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.formats.murmur2 import KeyBatch, KeyBlock, bit_positions


class BloomFilterType(Enum):
    """The serialised forms; the value is the `hoodie_bloom_filter_type_code` of the footer."""

    DYNAMIC_V0 = "DYNAMIC_V0"
    SIMPLE = "SIMPLE"


class BloomFilter:
    """A set of record keys that answers "surely absent" or "possibly present".

    Keys are an Arrow string array (chunked or not), a numpy array or a sequence of `str`.
    """

    def __init__(
        self,
        kind: BloomFilterType,
        bit_count: int,
        hash_count: int,
        keys_per_row: int = 0,
        max_entries: int = 0,
    ) -> None:
        self.kind = kind
        self.bit_count = bit_count
        self.hash_count = hash_count
        self.keys_per_row = keys_per_row
        self.max_entries = max_entries
        self._keys_in_row = 0
        self._rows: list[npt.NDArray[np.uint8]] = []
        self._add_row()

    @classmethod
    def create(
        cls, num_entries: int = 60_000, error_rate: float = 1e-9, max_entries: int = 100_000
    ) -> BloomFilter:
        """An empty dynamic filter; a row of `num_entries` keys errs at `error_rate`.

        The defaults are those of `hoodie.index.bloom.num_entries`, `hoodie.index.bloom.fpp` and
        `hoodie.bloom.index.filter.dynamic.max.entries`. Source: Hudi's BloomFilterUtils.
        """
        log_2 = math.log(2)
        bit_count = math.ceil(num_entries * (-math.log(error_rate) / (log_2 * log_2)))
        hash_count = math.ceil(log_2 * bit_count / num_entries)
        return cls(BloomFilterType.DYNAMIC_V0, bit_count, hash_count, num_entries, max_entries)

    @classmethod
    def sized(
        cls,
        key_count: int,
        num_entries: int = 60_000,
        error_rate: float = 1e-9,
        max_entries: int = 100_000,
    ) -> BloomFilter:
        """An empty dynamic filter with room for `key_count` keys, never smaller than for 64.

        Its row is made for a power of two of keys, so that a writer that adds to it seldom rebuilds
        it, and for `num_entries` at most: more keys get what `create` makes.
        """
        room = max(_KEYS_MIN, 1 << max(key_count - 1, 0).bit_length())
        return cls.create(min(room, num_entries), error_rate, max_entries)

    @classmethod
    def from_base64(
        cls,
        text: str,
        kind: BloomFilterType | None = None,
        max_entries: int = 100_000,
    ) -> BloomFilter:
        """Read a filter as stored in a footer; without `kind` its length shows which it is.

        The stored form lacks `max_entries`; with the writer's value, adding keys continues as if
        the filter had never been stored. Raises CorruptTableError when the text is no such filter,
        UnsupportedTableError when its hash is not MurmurHash.
        """
        try:
            reader = _Reader(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError) as error:
            raise CorruptTableError("bloom filter is not base64", value=text[:40]) from error
        hash_count, bit_count = reader.header()
        if kind is None and reader.remaining == (bit_count + 7) // 8:
            kind = BloomFilterType.SIMPLE
        if kind is BloomFilterType.SIMPLE:
            simple = cls(kind, bit_count, hash_count)
            simple._rows = [reader.row(bit_count)]
            reader.end()
            return simple
        keys_per_row, keys_in_row, row_count = (reader.integer() for _ in range(3))
        if keys_per_row <= 0 or keys_in_row < 0 or row_count <= 0:
            raise CorruptTableError("bloom filter without rows", value=(keys_per_row, row_count))
        dynamic = cls(BloomFilterType.DYNAMIC_V0, bit_count, hash_count, keys_per_row, max_entries)
        dynamic._keys_in_row = keys_in_row
        dynamic._rows = [reader.nested_row(hash_count, bit_count) for _ in range(row_count)]
        reader.end()
        return dynamic

    def to_base64(self) -> str:
        """The filter as Hudi stores it in a footer."""
        header = struct.pack(">iibi", _VERSION, self.hash_count, _MURMUR, self.bit_count)
        parts = [header]
        if self.kind is BloomFilterType.SIMPLE:
            parts.append(self._rows[0].tobytes())
        else:
            parts.append(struct.pack(">iii", self.keys_per_row, self._keys_in_row, len(self._rows)))
            for row in self._rows:
                parts += (header, row.tobytes())
        return base64.b64encode(b"".join(parts)).decode("ascii")

    @property
    def row_count(self) -> int:
        return len(self._rows)

    @property
    def room(self) -> int:
        """How many more keys the row that keys go to is made for."""
        return max(self.keys_per_row - self._keys_in_row, 0)

    def add_keys(self, keys: Any) -> None:
        """Add keys in order. Raises InvalidDataError for a null or empty key, as Hudi does."""
        batch = KeyBatch.of(keys)
        for row, part in self._rows_of_next(len(batch)):
            flags = np.zeros(self.bit_count, dtype=np.bool_)
            for block in batch.blocks(part):
                hashes = block.no_hashes()
                for _ in range(self.hash_count):
                    hashes = block.hash(hashes)
                    flags[bit_positions(hashes, self.bit_count)] = True
            self._rows[row] |= np.packbits(flags, bitorder="little")

    def might_contain(self, keys: Any) -> npt.NDArray[np.bool_]:
        """For every key False when it is surely absent.

        Raises InvalidDataError as `add_keys` does.
        """
        batch = KeyBatch.of(keys)
        found = np.zeros(len(batch), dtype=np.bool_)
        for block in batch.blocks(slice(None)):
            found[self._find(block)] = True
        return found

    def _find(self, block: KeyBlock) -> npt.NDArray[np.int64]:
        """The indices of the block's keys that may be present.

        Keys known to be absent are dropped on the way: most are after a few of the hashes.
        """
        hashes = block.no_hashes()
        hits = np.ones((len(self._rows), len(block.indices)), dtype=np.bool_)
        for _ in range(self.hash_count):
            hashes = block.hash(hashes)
            positions = bit_positions(hashes, self.bit_count)
            for row, hit in zip(self._rows, hits, strict=True):
                hit &= (row[positions >> 3] >> (positions & 7).astype(np.uint8) & 1).view(np.bool_)
            alive = np.asarray(hits.any(axis=0))
            if np.count_nonzero(alive) * 2 <= len(alive):
                block, hashes, hits = block.keep(alive), hashes[alive], hits[:, alive]
            if not len(hashes):
                break
        return block.indices[hits.any(axis=0)]

    def _add_row(self) -> None:
        self._rows.append(np.zeros((self.bit_count + 7) // 8, dtype=np.uint8))
        self._keys_in_row = 0

    def _rows_of_next(self, count: int) -> Iterator[tuple[int, slice]]:
        """Which row each of the next `count` keys goes to, adding rows on the way."""
        if self.kind is BloomFilterType.SIMPLE:
            yield 0, slice(0, count)
            return
        start = 0
        while start < count:
            room = self.keys_per_row - self._keys_in_row
            if room > 0:
                end = min(start + room, count)
                yield len(self._rows) - 1, slice(start, end)
                self._keys_in_row += end - start
                start = end
            elif len(self._rows) * self.keys_per_row < self.max_entries:
                self._add_row()
            else:
                yield from self._rows_in_turn(start, count)
                self._keys_in_row += count - start
                return

    def _rows_in_turn(self, start: int, count: int) -> Iterator[tuple[int, slice]]:
        overflowed = self._keys_in_row - self.keys_per_row
        if overflowed == 0:
            yield 0, slice(start, start + 1)
            start, overflowed = start + 1, 1
        rows = len(self._rows)
        for offset in range(min(rows, count - start)):
            yield (overflowed - 1 + offset) % rows, slice(start + offset, count, rows)


_KEYS_MIN = 64
_VERSION = -1
_MURMUR = 1
_HASHES_MAX = 1024
"""A rate of errors of 1e-300 needs 997. Every key is hashed so many times."""


class _Reader:
    """Reads the serialised form front to back; running out of bytes is CorruptTableError."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._position = 0

    @property
    def remaining(self) -> int:
        return len(self._body) - self._position

    def integer(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def header(self) -> tuple[int, int]:
        """Number of hashes and number of bits."""
        version = self.integer()
        if version != _VERSION:
            raise UnsupportedTableError("bloom filter of an unknown version", value=version)
        hash_count = self.integer()
        hash_type = self._take(1)[0]
        if hash_type != _MURMUR:
            raise UnsupportedTableError(
                "bloom filter with another hash than Murmur", value=hash_type
            )
        bit_count = self.integer()
        if bit_count <= 0 or hash_count <= 0:
            raise CorruptTableError("bloom filter without bits", value=(hash_count, bit_count))
        if hash_count > _HASHES_MAX:
            raise CorruptTableError("bloom filter with too many hashes", value=hash_count)
        if bit_count > self.remaining * 8:
            raise CorruptTableError("bloom filter is truncated", value=len(self._body))
        return hash_count, bit_count

    def row(self, bit_count: int) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self._take((bit_count + 7) // 8), dtype=np.uint8).copy()

    def nested_row(self, hash_count: int, bit_count: int) -> npt.NDArray[np.uint8]:
        header = self.header()
        if header != (hash_count, bit_count):
            raise CorruptTableError("bloom filter row of another size", value=header)
        return self.row(bit_count)

    def end(self) -> None:
        if self.remaining:
            raise CorruptTableError("bytes after the bloom filter", value=len(self._body))

    def _take(self, length: int) -> bytes:
        taken = self._body[self._position : self._position + length]
        if len(taken) != length:
            raise CorruptTableError("bloom filter is truncated", value=len(self._body))
        self._position += length
        return taken
