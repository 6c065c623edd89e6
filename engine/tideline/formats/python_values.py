"""Values of Arrow columns as Python's own, also where Python's calendar has no such day."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import types

from tideline.formats.calendar_days import FarTime

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """What `to_pylist` gives, with `FarTime` where Python has no such date or moment."""
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        return [_value(item) for item in column]
    return values


def _value(scalar: Any) -> Any:
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if types.is_struct(kind):
        return {kind.field(at).name: _value(scalar[at]) for at in range(kind.num_fields)}
    if types.is_map(kind):
        entries = scalar.values
        keys, values = (python_values(entries.field(part)) for part in (0, 1))
        return list(zip(keys, values, strict=True))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return python_values(scalar.values)
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return _far_time(scalar)


def _far_time(scalar: Any) -> FarTime:
    kind = scalar.type
    if types.is_date32(kind):
        return FarTime(scalar.value)
    # What lies near the end of the calendar may be beyond it in its zone: such a one is in UTC.
    per_second = _PER_SECOND["ms" if types.is_date64(kind) else kind.unit]
    day, rest = divmod(scalar.value, 86_400 * per_second)
    if types.is_date64(kind):
        return FarTime(day)
    seconds, fraction = divmod(rest, per_second)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if fraction:
        digits = len(str(per_second)) - 1
        clock += f".{fraction:0{digits}d}".ljust(7, "0")
    return FarTime(day, clock + ("+00:00" if kind.tz else ""))
