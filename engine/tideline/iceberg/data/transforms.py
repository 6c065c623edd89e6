"""Partition transforms of whole columns.

Results have the type that partition tuples hold: 32 bit numbers for bucket, year, month and hour,
dates for day, else the source's type. Nulls stay null.

Source: Iceberg's specification, "Partition Transforms" and "Appendix B: 32-bit Hash Requirements".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.errors import UnsupportedTableError
from tideline.formats.murmur3_columns import hash_bytes, hash_longs, hash_rows
from tideline.iceberg.metadata.partition_spec import Transform

_DAY_UNITS = {"us": 86_400_000_000, "ns": 86_400_000_000_000}
_HOUR_UNITS = {"us": 3_600_000_000, "ns": 3_600_000_000_000}
_INT_MAX = np.int32(0x7FFFFFFF)


def transformed(transform: Transform, column: pa.Array) -> pa.Array:
    """The transform of each value. Raises UnsupportedTableError for one that is unknown."""
    match transform.name:
        case "identity":
            return column
        case "void":
            return pa.nulls(len(column), column.type)
        case "bucket":
            return _bucket(column, _width(transform))
        case "truncate":
            return _truncated(column, _width(transform))
        case "year" | "month":
            return _calendar(column, transform.name)
        case "day":
            return _whole(column, _DAY_UNITS).view(pa.date32())
        case "hour":
            return _whole(column, _HOUR_UNITS)
    raise UnsupportedTableError("unknown partition transform", value=str(transform))


def value_hashes(column: pa.Array) -> Any:
    """The hashes that buckets are chosen by, of values without nulls; of booleans, which are in no
    bucket, those of 0 and 1."""
    return _hashes(column.cast(pa.int32()) if types.is_boolean(column.type) else column)


def _width(transform: Transform) -> int:
    assert transform.width is not None, f"{transform} has no width"
    return transform.width


def _bucket(column: pa.Array, buckets: int) -> pa.Array:
    present = column.is_valid().to_numpy(zero_copy_only=False)
    numbers = np.zeros(len(column), dtype=np.int32)
    numbers[present] = (_hashes(column.drop_null()) & _INT_MAX) % np.int32(buckets)
    return pa.array(numbers, mask=~present)


def _hashes(column: Any) -> Any:
    """Of values without nulls."""
    kind = column.type
    if types.is_integer(kind):
        return hash_longs(column.cast(pa.int64()).to_numpy())
    if types.is_date32(kind):
        return hash_longs(column.view(pa.int32()).to_numpy().astype(np.int64))
    if types.is_time64(kind) or types.is_timestamp(kind):
        numbers = column.view(pa.int64()).to_numpy()
        return hash_longs(numbers // 1000 if kind.unit == "ns" else numbers)
    if types.is_decimal128(kind):
        return _decimal_hashes(column)
    if types.is_fixed_size_binary(kind):
        return hash_rows(_fixed_rows(column))
    if types.is_string(kind) or types.is_binary(kind):
        _, offsets, data = column.buffers()
        cuts = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
        return hash_bytes(np.frombuffer(data or b"", np.uint8), cuts.astype(np.int64))
    raise UnsupportedTableError("a column of this type cannot be bucketed", value=kind)


def _fixed_rows(column: Any) -> Any:
    width = column.type.byte_width
    data = np.frombuffer(column.buffers()[1], np.uint8)
    return data[column.offset * width : (column.offset + len(column)) * width].reshape(-1, width)


def _decimal_hashes(column: Any) -> Any:
    """Of the unscaled values in as few big-endian bytes of two's complement as hold them."""
    digits = np.ascontiguousarray(_fixed_rows(column)[:, ::-1])
    sign = np.where(digits[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    is_padding = (digits[:, :-1] == sign) & ((digits[:, 1:] ^ sign) < 0x80)
    skipped = np.cumprod(is_padding, axis=1).sum(axis=1)
    kept = np.arange(digits.shape[1]) >= skipped[:, None]
    offsets = np.concatenate([[0], np.cumsum(digits.shape[1] - skipped)])
    return hash_bytes(digits[kept], offsets.astype(np.int64))


def _truncated(column: Any, width: int) -> pa.Array:
    kind = column.type
    if types.is_string(kind):
        return pc.utf8_slice_codeunits(column, 0, width)
    if types.is_binary(kind):
        return pc.binary_slice(column, 0, width)
    if types.is_integer(kind):
        values = column.fill_null(0).to_numpy(zero_copy_only=False)
        # Step by step as Java does it: the sums may wrap around.
        divisor = kind.to_pandas_dtype()(width)
        below = values - np.fmod(np.fmod(values, divisor) + divisor, divisor)
        return pa.array(below, kind, mask=column.is_null().to_numpy(zero_copy_only=False))
    if types.is_decimal128(kind):
        return _truncated_decimals(column, width)
    raise UnsupportedTableError("a column of this type cannot be truncated", value=kind)


def _truncated_decimals(column: Any, width: int) -> pa.Array:
    """On unscaled values, as two 64 bit halves: what is cut off fits into the lower one."""
    halves = _fixed_rows(column).copy().view("<u8").reshape(-1, 2)
    low, high = halves[:, 0], halves[:, 1].view(np.int64)
    # 2^64 and both halves are taken modulo the width, so that nothing overflows.
    half = (1 << 64) % width
    modulus = np.uint64(width)
    rest = (np.remainder(high, np.int64(width)).astype(np.uint64) * np.uint64(half)) % modulus
    rest = (rest + low % modulus) % modulus
    borrow = (low < rest).astype(np.int64)
    cut = np.stack([low - rest, (high - borrow).view(np.uint64)], axis=1)
    buffers = [None, pa.py_buffer(np.ascontiguousarray(cut).tobytes())]
    result = pa.Array.from_buffers(column.type, len(column), buffers)
    return pc.if_else(column.is_valid(), result, pa.scalar(None, column.type))


def _calendar(column: Any, unit: str) -> pa.Array:
    """Years or months since 1970-01, rounded down. Arrow's own end with the year 32767."""
    if types.is_date32(column.type):
        days = column.view(pa.int32()).fill_null(0).to_numpy()
    else:
        # In whole days: the least moment of a unit is none to numpy.
        days = column.view(pa.int64()).fill_null(0).to_numpy() // _DAY_UNITS[column.type.unit]
    counted = days.astype("datetime64[D]").astype(f"datetime64[{unit[0].upper()}]").astype(np.int32)
    return pa.array(counted, mask=column.is_null().to_numpy(zero_copy_only=False))


def _whole(column: Any, units: dict[str, int]) -> pa.Array:
    """Whole days or hours since 1970, rounded down; they wrap around, as Iceberg's do."""
    if types.is_date32(column.type):
        return column.view(pa.int32())
    size = units[column.type.unit]
    numbers = column.view(pa.int64()).fill_null(0).to_numpy() // size
    return pa.array(numbers.astype(np.int32), mask=column.is_null().to_numpy(zero_copy_only=False))
