"""Rows of statistics as they are stored: bounds and counts of a column of a file or a partition.

The second version of the index says the type of the bounds; in the first one they are in the form
of their Java class, and times are numbers of no unit. A commit has a row for every column of every
file, so they are put together byte by byte: what Avro makes of one schema is known beforehand.

Source: Hudi's HoodieMetadataPayload.createColumnStatsRecords, ValueType, ValueMetadata (1.2);
Avro's specification, "Binary Encoding".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from tideline.bounded.parsing import faults_named
from tideline.errors import CorruptTableError
from tideline.formats.avro import encode_bytes, encode_long
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.timeline.column_range import Bound, ColumnRange, ValueKind, ValueType, united

_FIELD = "ColumnStatsMetadata"
_FIRST_VERSION_DECIMAL = ValueType.decimal(30, 15)
_BRANCHES = (
    "",
    "Boolean",
    "Int",
    "Long",
    "Float",
    "Double",
    "Bytes",
    "String",
    "Date",
    "Decimal",
    "TimeMicros",
    "TimestampMicros",
    "LocalDate",
)
"""The union of a bound, by the numbers of its branches."""
_WRAPPERS = {
    ValueKind.BOOLEAN: "Boolean",
    ValueKind.INT: "Int",
    ValueKind.LONG: "Long",
    ValueKind.FLOAT: "Float",
    ValueKind.DOUBLE: "Double",
    ValueKind.STRING: "String",
    ValueKind.UUID: "String",
    ValueKind.BYTES: "Bytes",
    ValueKind.FIXED: "Bytes",
    ValueKind.DECIMAL: "Bytes",
    ValueKind.DATE: "Int",
    ValueKind.TIME_MILLIS: "Int",
}
"""Of the second version; of all other times it is Long."""
_FIRST_VERSION_WRAPPERS = {
    ValueKind.DECIMAL: "Decimal",
    ValueKind.DATE: "Date",
    ValueKind.TIME_MILLIS: "Long",
}
_KINDS = {
    "Boolean": ValueKind.BOOLEAN,
    "Int": ValueKind.INT,
    "Long": ValueKind.LONG,
    "Float": ValueKind.FLOAT,
    "Double": ValueKind.DOUBLE,
    "Bytes": ValueKind.BYTES,
    "String": ValueKind.STRING,
    "Date": ValueKind.DATE,
    "Decimal": ValueKind.DECIMAL,
    "TimeMicros": ValueKind.TIME_MICROS,
    "TimestampMicros": ValueKind.TIMESTAMP_MICROS,
    "LocalDate": ValueKind.DATE,
}
"""What a bound of each wrapper is where the row does not say it."""
_NULL, _PRESENT = b"\0", b"\2"
_NO_META_COLUMNS_NO_KEY = b"\0" * 6
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """What a row says of a column of a file, or of a partition; `is_tight` that it replaces older
    rows of its key instead of being added to them, `has_type` that it says the type of its bounds.
    """

    file: str
    column: str
    range: ColumnRange
    is_tight: bool = False
    has_type: bool = True

    @classmethod
    def parse(cls, record: MetadataRecord) -> ColumnRow | None:
        """None where the row is deleted. Raises CorruptTableError for a record of another form."""
        said = _said(record)
        if said is None:
            return None
        with faults_named("records of a metadata table are not understood", path=record.path):
            counts = [
                said[name] or 0
                for name in ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")
            ]
            found = ColumnRange(*_bounds(said), *counts)
            tight = bool(said.get("isTightBound", False))
            has_type = said.get("valueType") is not None
            return cls(said["fileName"], said["columnName"], found, tight, has_type)

    def stored(self, key: str, kind: int, *, has_types: bool) -> MetadataRecord:
        """As it is written under a key, in one of the versions of the index."""
        found = self.range
        counts = (found.values, found.nulls, found.size_bytes, found.plain_bytes)
        parts = (
            _NO_META_COLUMNS_NO_KEY,
            encode_long(kind),
            _NULL,  # of `files`
            _NULL,  # of bloom filters
            _PRESENT,
            _PRESENT,
            _text(self.file),
            _PRESENT,
            _text(self.column),
            _wrapped(found.least, found.type, has_types=has_types),
            _wrapped(found.greatest, found.type, has_types=has_types),
            *(_PRESENT + encode_long(count) for count in counts),
            b"\0",  # is not deleted
            b"\1" if self.is_tight else b"\0",
            _printed_type(found.type) if has_types else _NULL,
            _NULL,  # of the record index
            _NULL,  # of a secondary index
        )
        return MetadataRecord(key, None, datum=b"".join(parts))


def merged_rows(records: Iterable[MetadataRecord]) -> list[MetadataRecord]:
    """The rows that count of each key: the newest one, or the sum of several that are not tight.

    Raises CorruptTableError for records of another form.
    """
    return [_added(found) for found in _by_key(records).values() if not found[-1].is_deleted]


def replacing_rows(records: Iterable[MetadataRecord]) -> list[MetadataRecord] | None:
    """The newest of each key, where each is tight or deletes; None where one is not: it may be
    added to what was said before."""
    newest = {record.key: record for record in records}
    said = (None if record.is_deleted else _said(record) for record in newest.values())
    is_replaced = all(row is None or row.get("isTightBound") for row in said)
    return list(newest.values()) if is_replaced else None


def rows_of(records: Iterable[MetadataRecord]) -> Mapping[str, ColumnRow]:
    """The rows that records say together, oldest first, by their keys. Raises likewise."""
    sums = {key: _sum(found) for key, found in _by_key(records).items()}
    return {key: row for key, row in sums.items() if row is not None}


def _by_key(records: Iterable[MetadataRecord]) -> Mapping[str, list[MetadataRecord]]:
    """The records that count of each key, a deletion among them. What is said once is not decoded,
    for that is nearly all."""
    found: dict[str, list[MetadataRecord]] = {}
    for record in records:
        before = found.get(record.key)
        if before is None or not _is_added(before[-1], record):
            found[record.key] = [record]
        else:
            before.append(record)
    return found


def _is_added(before: MetadataRecord, record: MetadataRecord) -> bool:
    """Whether a record is added to the one before, instead of replacing it."""
    said = None if _said(before) is None else _said(record)
    return said is not None and not said.get("isTightBound")


def _said(record: MetadataRecord) -> Mapping[str, Any] | None:
    """What a record says; None where the row is deleted."""
    content = record.content
    if content is None:
        return None
    said: Mapping[str, Any] | None = content.get(_FIELD)
    if said is None:
        raise CorruptTableError("a record of another kind among statistics", path=record.path)
    return None if said["isDeleted"] else said


def _added(records: list[MetadataRecord]) -> MetadataRecord:
    """Rows of one key as one."""
    newest = records[-1]
    if len(records) == 1:
        return newest
    row, content = _sum(records), newest.content
    assert row is not None, "only rows are added"
    assert content is not None, "only rows are added"
    return row.stored(newest.key, content["type"], has_types=row.has_type)


def _sum(records: list[MetadataRecord]) -> ColumnRow | None:
    """The row that records of one key are together; None of one that is deleted."""
    rows = [row for record in records if (row := ColumnRow.parse(record)) is not None]
    if len(rows) < 2:
        return rows[0] if rows else None
    newest = rows[-1]
    whole = united((row.range for row in rows), newest.range.type)
    return replace(newest, range=whole)


def _wrapped(bound: Bound | None, kind: ValueType, *, has_types: bool) -> bytes:
    """A bound as a branch of its union."""
    if bound is None:
        return _NULL
    wrapper = _WRAPPERS.get(kind.kind, "Long")
    if not has_types:
        wrapper = _FIRST_VERSION_WRAPPERS.get(kind.kind, wrapper)
    branch = encode_long(_BRANCHES.index(wrapper))
    if kind.kind is ValueKind.DECIMAL and isinstance(bound, int):
        more = 0 if has_types else _FIRST_VERSION_DECIMAL.scale - kind.scale
        digits = bound * 10**more
        length = (digits if digits >= 0 else ~digits).bit_length() // 8 + 1
        return branch + encode_bytes(digits.to_bytes(length, "big", signed=True))
    if isinstance(bound, bool):
        return branch + (b"\1" if bound else b"\0")
    if isinstance(bound, int):
        return branch + encode_long(bound)
    if isinstance(bound, float):
        return branch + (_FLOAT if wrapper == "Float" else _DOUBLE).pack(bound)
    return branch + (_text(bound) if isinstance(bound, str) else encode_bytes(bound))


@lru_cache(maxsize=256)
def _printed_type(found: ValueType) -> bytes:
    digits = _NULL if found.digits is None else _PRESENT + _text(found.digits)
    return _PRESENT + encode_long(found.kind.value) + digits


def _text(value: str) -> bytes:
    return encode_bytes(value.encode())


def _bounds(said: Mapping[str, Any]) -> tuple[ValueType, Bound | None, Bound | None]:
    """The type of a row's bounds, and both."""
    found = [_unwrapped(said[name]) for name in ("minValue", "maxValue")]
    wrappers = [wrapper for wrapper, bound in found if bound is not None]
    stated = said.get("valueType")
    if stated is not None:
        kind = ValueType(ValueKind(stated["typeOrdinal"]), stated["additionalInfo"])
    else:
        kind = ValueType(_KINDS[wrappers[0]] if wrappers else ValueKind.NULL)
        if kind.kind is ValueKind.DECIMAL:
            kind = _FIRST_VERSION_DECIMAL
    least, greatest = (_read(bound, kind) for _, bound in found)
    return kind, least, greatest


def _unwrapped(value: Any) -> tuple[str, Any]:
    if value is None:
        return "", None
    name, content = value
    return name.rpartition(".")[2].removesuffix("Wrapper"), content["value"]


def _read(bound: Any, kind: ValueType) -> Bound | None:
    if isinstance(bound, Decimal):
        return int(bound.scaleb(kind.scale))
    if kind.kind is ValueKind.DECIMAL and isinstance(bound, bytes):
        return int.from_bytes(bound, "big", signed=True)
    found: Bound | None = bound
    return found
