"""The folder that a partition's data files are written to: `day=2026-11-21/region=EU%2FWest`.

Readers never parse it. It is written as Iceberg's `PartitionSpec.partitionToPath` does, so that
people find files where they look for them.
"""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote_plus

from tideline.formats.calendar_days import civil_day, iso_day
from tideline.iceberg.metadata.field_type import FieldType, Primitive
from tideline.iceberg.metadata.partition_spec import PartitionSpec, Transform
from tideline.iceberg.metadata.schema import Schema


def partition_path(spec: PartitionSpec, partition: tuple[Any, ...], schema: Schema) -> str:
    """The path for one partition tuple, empty for an unpartitioned table."""
    parts = []
    for field, value in zip(spec.fields, partition, strict=True):
        if field.transform.name == "void":
            text = "null"
        else:
            source = schema.field(field.source_id)
            type_: FieldType = Primitive("unknown") if source is None else source.type
            text = _text(field.transform, type_, value)
        parts.append(f"{quote_plus(field.name)}={quote_plus(text)}")
    return "/".join(parts)


def _text(transform: Transform, type_: FieldType, value: Any) -> str:
    if value is None:
        return "null"
    match transform.name:
        case "year":
            return f"{1970 + value:04d}"
        case "month":
            return f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"
        case "day":
            return _day(value)
        case "hour":
            return f"{_day(value // 24)}-{value % 24:02d}"
        case "identity":
            return _identity_text(type_, value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _identity_text(type_: FieldType, value: Any) -> str:
    match str(type_):
        case "date":
            return _day(value)
        case "time":
            return _clock(value, 1_000_000)
        case "timestamp" | "timestamptz":
            return _moment(value, 1_000_000, zone=str(type_).endswith("tz"))
        case "timestamp_ns" | "timestamptz_ns":
            return _moment(value, 1_000_000_000, zone="tz" in str(type_))
    if isinstance(value, bool):
        return str(value).lower()
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _day(value: int) -> str:
    """Without a sign where the year has more than four digits, as Iceberg's `humanDay`."""
    year, month, day = civil_day(value)
    return f"{year:04d}-{month:02d}-{day:02d}"


def _moment(value: int, per_second: int, *, zone: bool) -> str:
    days, rest = divmod(value, 86_400 * per_second)
    return f"{iso_day(days)}T{_clock(rest, per_second)}{'+00:00' if zone else ''}"


def _clock(value: int, per_second: int) -> str:
    seconds, fraction = divmod(value, per_second)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if fraction:
        text += "." + f"{fraction:0{len(str(per_second)) - 1}d}".rstrip("0")
    return text
