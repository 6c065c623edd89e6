"""Partition specs: by which transforms and columns a data file is filed under (spec,
"Partitioning").

A partition tuple is a plain tuple in the spec's field order. It holds Iceberg's internal values:
integers for dates (days), times and timestamps (microseconds, or nanoseconds for the `_ns` types)
and for the results of `bucket`, `year`, `month`, `day` and `hour`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tideline.errors import CorruptTableError
from tideline.iceberg.metadata.field_type import (
    DATE,
    INT,
    FieldType,
    ListType,
    MapType,
    NestedField,
    Primitive,
    StructType,
)
from tideline.iceberg.metadata.schema import Schema

FIRST_PARTITION_FIELD_ID = 1000

_WITH_WIDTH = re.compile(r"(bucket|truncate)\[(\d+)\]")
_WIDTH_MAX = 2**31 - 1
_PLAIN = frozenset({"identity", "year", "month", "day", "hour", "void"})
_TIMESTAMPS = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_TRUNCATED = frozenset({"int", "long", "decimal", "string", "binary"})
_SOURCES = {
    "bucket": _TRUNCATED | _TIMESTAMPS | {"date", "time", "uuid", "fixed"},
    "truncate": _TRUNCATED,
    "hour": _TIMESTAMPS,
    **dict.fromkeys(("year", "month", "day"), _TIMESTAMPS | {"date"}),
}
_NO_VALUES = frozenset({"variant", "geometry", "geography", "unknown"})
"""Types without values to compare."""
_STORED_APART = "fixed"
"""Iceberg's Java stores partition values of it as bytes of any length, against the specification:
it reads no others, and others do not read them."""


@dataclass(frozen=True, slots=True)
class Transform:
    """A function from a column's value to a partition value; unknown names are kept as they are,
    because a reader must treat them as no constraint at all."""

    name: str
    width: int | None = None

    @classmethod
    def parse(cls, text: str) -> Transform:
        """From `identity`, `bucket[16]`, `truncate[4]`, `day` and so on."""
        match = _WITH_WIDTH.fullmatch(text)
        is_wide = match is not None and int(match[2]) <= _WIDTH_MAX
        return cls(match[1], int(match[2])) if match and is_wide else cls(text.lower())

    def __str__(self) -> str:
        return self.name if self.width is None else f"{self.name}[{self.width}]"

    @property
    def is_known(self) -> bool:
        """Whether Tideline can compute it."""
        return self.width is not None or self.name in _PLAIN

    def result_type(self, source: FieldType) -> FieldType:
        """The type of what it gives for a column of type `source`."""
        if self.name in ("identity", "truncate", "void"):
            return source
        return DATE if self.name == "day" else INT

    @property
    def lacks_width(self) -> bool:
        """Whether it is one that takes a number, and has none but 0."""
        return self.name in ("bucket", "truncate") and not self.width

    @property
    def short_name(self) -> str:
        """What names of partition fields have of it."""
        return {"truncate": "trunc", "void": "null"}.get(self.name, self.name)

    def takes(self, source: FieldType) -> bool:
        """Whether a column of type `source` has values of it that all can read (spec, "Partition
        Transforms")."""
        if isinstance(source, StructType | ListType | MapType) or not self.is_known:
            return False
        kind = str(source).partition("(")[0].partition("[")[0]
        if self.name in _SOURCES:
            return kind in _SOURCES[self.name]
        return kind not in _NO_VALUES and (self.name, kind) != ("identity", _STORED_APART)


IDENTITY = Transform("identity")


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One value of the partition tuple."""

    source_id: int
    field_id: int
    name: str
    transform: Transform


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """A way to file rows; a table may have had several, and every data file names its own."""

    spec_id: int
    fields: tuple[PartitionField, ...] = ()

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> PartitionSpec:
        """From `{"spec-id": .., "fields": [..]}`. Raises CorruptTableError."""
        return cls(int(value.get("spec-id", 0)), parse_partition_fields(value.get("fields", ())))

    def json(self) -> dict[str, Any]:
        """The JSON that `parse` reads back."""
        return {"spec-id": self.spec_id, "fields": self.fields_json()}

    def fields_json(self) -> list[dict[str, Any]]:
        """The fields alone, as a manifest's header holds them."""
        return [
            {
                "name": field.name,
                "transform": str(field.transform),
                "source-id": field.source_id,
                "field-id": field.field_id,
            }
            for field in self.fields
        ]

    @property
    def is_unpartitioned(self) -> bool:
        """Whether all rows share one partition."""
        return all(field.transform.name == "void" for field in self.fields)

    def partition_type(self, schema: Schema) -> StructType:
        """The struct of its tuples, with the partition fields' own ids.

        A source column that has been dropped since leaves type `unknown`: `schema` should then be
        one that still had it.
        """
        return StructType(tuple(self._field(field, schema) for field in self.fields))

    @staticmethod
    def _field(field: PartitionField, schema: Schema) -> NestedField:
        source = schema.field(field.source_id)
        source_type: FieldType = Primitive("unknown") if source is None else source.type
        return NestedField(field.field_id, field.name, field.transform.result_type(source_type))


def source_id(value: Mapping[str, Any]) -> int:
    """The column of a partition or sort field; version 3 may write a list of one."""
    return int(value["source-id"] if "source-id" in value else value["source-ids"][0])


def parse_partition_fields(values: Any) -> tuple[PartitionField, ...]:
    """The fields of a spec; ids that version 1 leaves out count from 1000."""
    try:
        return tuple(
            PartitionField(
                source_id=source_id(value),
                field_id=int(value.get("field-id", FIRST_PARTITION_FIELD_ID + position)),
                name=value["name"],
                transform=Transform.parse(value["transform"]),
            )
            for position, value in enumerate(values)
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise CorruptTableError(f"a partition field lacks {error}", value=values) from error


def told_apart(partition: tuple[Any, ...]) -> tuple[Any, ...]:
    """A partition such that equal partitions are equal: those of NaN are one, as in Iceberg's
    comparators, and those of the two zeros are two."""
    if not any(type(value) is float for value in partition):
        return partition
    return tuple(_told_apart(value) if type(value) is float else value for value in partition)


def _told_apart(value: float) -> Any:
    return "NaN" if value != value else (value, math.copysign(1.0, value))
