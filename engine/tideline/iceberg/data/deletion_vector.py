"""Deletion vectors: the deleted positions of one data file as a 64 bit Roaring bitmap.

A blob is the length of what follows (4 bytes, big-endian), a magic number, the bitmap in Roaring's
portable format for 64 bit numbers, and a CRC-32 of magic and bitmap (big-endian).
The bitmap is a number of 32 bit bitmaps, each after the upper half of its positions; each of those
is a set of containers of 2^16 positions: sorted numbers, a bit field or runs.

Source: Iceberg's Puffin specification, `deletion-vector-v1`; Roaring's format specification.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from zlib import crc32

import numpy as np
import numpy.typing as npt

from tideline.errors import CorruptTableError
from tideline.formats.bounded import faults_named
from tideline.read_limits import read_limits, too_large

Positions = npt.NDArray[np.int64]
"""Row numbers in a data file, ascending and distinct."""

MAGIC = b"\xd1\xd3\x39\x64"
BLOB_TYPE = "deletion-vector-v1"

_COOKIE_PLAIN, _COOKIE_RUNS = 12346, 12347
_NO_OFFSETS_BELOW = 4
_ARRAY_MAX = 4096
_BITMAP_BYTES = 8192
_CONTAINERS_MAX = _CONTAINER_MAX = 65_536
_POSITION_BYTES = 2
"""Of the limit for one position, which takes 8 in memory: 128 million by default."""


def decode_deletion_vector(blob: bytes, *, path: str) -> Positions:
    """The positions in a blob. Raises CorruptTableError naming the file."""
    try:
        (length,) = struct.unpack_from(">I", blob)
        body = blob[4 : 4 + length]
        (checksum,) = struct.unpack_from(">I", blob, 4 + length)
    except struct.error as error:
        raise CorruptTableError("a deletion vector is cut short", path=path) from error
    if body[:4] != MAGIC:
        raise CorruptTableError("a deletion vector lacks its magic number", path=path)
    if crc32(body) != checksum:
        raise CorruptTableError("a deletion vector's checksum does not fit", path=path)
    with faults_named("a deletion vector cannot be read", path=path):
        return _Reader(memoryview(body)[4:]).positions()


def encode_deletion_vector(positions: Positions) -> bytes:
    """The blob of ascending, distinct positions."""
    highs = positions >> 32
    keys, starts = np.unique(highs, return_index=True)
    cuts = [*starts.tolist(), len(positions)]
    parts = [MAGIC, struct.pack("<Q", len(keys))]
    for key, (start, end) in zip(keys.tolist(), pairwise(cuts), strict=True):
        low = (positions[start:end] & 0xFFFFFFFF).astype(np.uint32)
        parts += [struct.pack("<I", key), _encode_bitmap(low)]
    body = b"".join(parts)
    return struct.pack(">I", len(body)) + body + struct.pack(">I", crc32(body))


class _Reader:
    """Walks through a portable 64 bit bitmap."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0
        self._left = read_limits().object_bytes_max // _POSITION_BYTES

    def positions(self) -> Positions:
        (count,) = self._unpack("<Q")
        parts: list[Positions] = []
        for _ in range(count):
            (key,) = self._unpack("<I")
            parts += [(key << 32) + low for low in self._bitmap()]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _bitmap(self) -> list[Positions]:
        (cookie,) = self._unpack("<I")
        if cookie & 0xFFFF == _COOKIE_RUNS:
            containers = (cookie >> 16) + 1
            flags = self._take((containers + 7) // 8, np.uint8)
            is_run = np.unpackbits(flags, bitorder="little")[:containers].astype(bool)
        elif cookie == _COOKIE_PLAIN:
            (containers,) = self._unpack("<I")
            is_run = np.zeros(min(containers, _CONTAINERS_MAX), dtype=bool)
        else:
            raise ValueError(f"unknown cookie {cookie}")
        if containers > _CONTAINERS_MAX:
            raise ValueError(f"{containers:,} containers")
        header = self._take(4 * containers, np.dtype("<u2")).reshape(-1, 2).astype(np.int64)
        if cookie == _COOKIE_PLAIN or containers >= _NO_OFFSETS_BELOW:
            self._at += 4 * containers
        return [
            (key << 16) + self._container(int(last) + 1, bool(run))
            for (key, last), run in zip(header.tolist(), is_run, strict=True)
        ]

    def _container(self, cardinality: int, is_run: bool) -> Positions:
        if is_run:
            (count,) = self._unpack("<H")
            runs = self._take(4 * count, np.dtype("<u2")).reshape(-1, 2).astype(np.int64)
            lengths = runs[:, 1] + 1
            self._admit(int(lengths.sum()))
            return _ranges(runs[:, 0], lengths)
        self._admit(cardinality)
        if cardinality <= _ARRAY_MAX:
            return self._take(2 * cardinality, np.dtype("<u2")).astype(np.int64)
        bits = np.unpackbits(self._take(_BITMAP_BYTES, np.uint8), bitorder="little")
        return np.flatnonzero(bits).astype(np.int64)

    def _admit(self, count: int) -> None:
        """Four bytes of runs can be 65,536 positions."""
        self._left -= count
        if count > _CONTAINER_MAX:
            raise ValueError(f"a container of {count:,} positions")
        if self._left < 0:
            limit_bytes = read_limits().object_bytes_max
            raise too_large("what a deletion vector expands to", limit_bytes)

    def _unpack(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return values

    def _take(self, size_bytes: int, kind: npt.DTypeLike) -> npt.NDArray[np.unsignedinteger]:
        if self._at + size_bytes > len(self._data):
            raise ValueError("cut short")
        taken = np.frombuffer(self._data[self._at : self._at + size_bytes], kind)
        self._at += size_bytes
        return taken


def _ranges(starts: Positions, lengths: Positions) -> Positions:
    """All numbers of the ranges, one after the other."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def _encode_bitmap(low: npt.NDArray[np.uint32]) -> bytes:
    keys, starts = np.unique(low >> 16, return_index=True)
    cuts = [*starts.tolist(), len(low)]
    header, bodies, offsets = [], [], []
    offset = 8 + 8 * len(keys)
    for number, key in enumerate(keys.tolist()):
        values = (low[cuts[number] : cuts[number + 1]] & 0xFFFF).astype("<u2")
        header.append(struct.pack("<HH", key, len(values) - 1))
        bodies.append(_encode_container(values))
        offsets.append(struct.pack("<I", offset))
        offset += len(bodies[-1])
    start = struct.pack("<II", _COOKIE_PLAIN, len(keys))
    return b"".join([start, *header, *offsets, *bodies])


def _encode_container(values: npt.NDArray[np.uint16]) -> bytes:
    if len(values) <= _ARRAY_MAX:
        return values.tobytes()
    bits = np.zeros(8 * _BITMAP_BYTES, dtype=np.uint8)
    bits[values] = 1
    return np.packbits(bits, bitorder="little").tobytes()
