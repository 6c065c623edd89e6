"""Codes of keys: numbers that are equal for equal keys, by which keys are divided and filtered.

Hashes of values are those of Iceberg's buckets. Long texts and bytes have a shorter way: murmur
takes a step of numpy for every four bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.iceberg.data.transforms import value_hashes

Codes = npt.NDArray[np.uint64]
_FACTOR, _MIXED = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_SHIFT = np.uint64(31)
_LONG_BYTES = 256


def key_codes(columns: Sequence[pa.Array]) -> Codes:
    """The code of each key, by its values without null in some fields."""
    codes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        codes = (codes ^ _hashes(column)) * _FACTOR
        codes ^= codes >> _SHIFT
    codes *= _MIXED
    codes ^= codes >> _SHIFT
    return codes


def _hashes(column: Any) -> Codes:
    kind = column.type
    if not (types.is_string(kind) or types.is_binary(kind)) or not len(column):
        return _as_codes(value_hashes(column))
    is_long = pc.greater(pc.binary_length(column), _LONG_BYTES).to_numpy(zero_copy_only=False)
    if not is_long.any():
        return _as_codes(value_hashes(column))
    found = np.empty(len(column), np.uint64)
    found[~is_long] = _as_codes(value_hashes(column.filter(pa.array(~is_long))))
    long = column.filter(pa.array(is_long)).cast(pa.binary())
    found[is_long] = [zlib.crc32(value.as_buffer()) for value in long]
    return found


def _as_codes(hashes: Any) -> Codes:
    codes: Codes = hashes.astype(np.int64).astype(np.uint64)
    return codes
