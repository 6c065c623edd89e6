"""Deletion vectors: the deleted positions of one data file as a 64 bit Roaring bitmap.

A blob is the length of what follows (4 bytes, big-endian), a magic number, the bitmap in Roaring's
portable format for 64 bit numbers, and a CRC-32 of magic and bitmap (big-endian). CRoaring reads
and writes the bitmap, and refuses one whose parts contradict each other.

Source: Iceberg's Puffin specification, `deletion-vector-v1`; Roaring's format specification.
"""

from __future__ import annotations

import struct
from array import array
from zlib import crc32

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from tideline.bounded.parsing import faults_named
from tideline.bounded.read_limits import read_limits, too_large
from tideline.errors import CorruptTableError

Positions = npt.NDArray[np.int64]
"""Row numbers in a data file, ascending and distinct."""

MAGIC = b"\xd1\xd3\x39\x64"
BLOB_TYPE = "deletion-vector-v1"

_POSITION_MAX = 2**63 - 1
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
        return _positions(BitMap64.deserialize(body[4:]))


def encode_deletion_vector(positions: Positions) -> bytes:
    """The blob of ascending, distinct positions."""
    bitmap = BitMap64(array("Q", positions.tobytes()))
    bitmap.run_optimize()
    body = MAGIC + bitmap.serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", crc32(body))


def _positions(bitmap: BitMap64) -> Positions:
    # Counted before they are written out: four bytes of runs can be 65,536 positions.
    limit_bytes = read_limits().object_bytes_max
    if len(bitmap) > limit_bytes // _POSITION_BYTES:
        raise too_large("what a deletion vector expands to", limit_bytes)
    if bitmap and bitmap.max() > _POSITION_MAX:
        raise ValueError(f"no file has a row {bitmap.max():,}")
    return np.frombuffer(bitmap.to_array(), np.uint64).view(np.int64)
