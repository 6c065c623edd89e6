"""The partition `column_stats`: bounds and counts of the columns of every data file.

A row stands for a column of one file, a base file or a log. Queries leave files out by them: one
without any row is read, one with a row of some columns only may be left out wrongly. So a file gets
a row of every column that is indexed, or none of its commit has any and the partition is dropped.
That is so where a column holds NaN: no bounds make Hudi's queries find it.

A commit adds the rows of the files that it wrote; what it replaced keeps its rows until a clean
deletes the files. A rollback takes the rows of its instant out with the rest of it.

Rows that are written here are tight. Of single files Hudi's are not, whose bounds may leave values
out (`hudi.read.known_values`): that tells them apart, also once Hudi has built them again.

The second version of the index says the type of the bounds; in the first one they are in the form
of their Java class, and times are numbers of no unit.

Source: Hudi's HoodieMetadataPayload.createColumnStatsRecords, HoodieTableMetadataUtil,
ValueType, ValueMetadata (1.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import isnan
from typing import Any

from tideline.bounded.parsing import faults_named
from tideline.errors import CorruptTableError
from tideline.hudi.metadata_table.hash_id import column_id, file_id_hash, partition_id
from tideline.hudi.metadata_table.indexed_columns import IndexedColumns, indexed_columns
from tideline.hudi.metadata_table.partition import (
    CannotFollow,
    Discrepancy,
    SeenTable,
    StoredRecords,
    TableChange,
)
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.table.file_group import split_path
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import COLUMN_STATS, TableType
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.column_range import (
    Bound,
    ColumnRange,
    ColumnRanges,
    ValueKind,
    ValueType,
    retyped,
    united,
)
from tideline.hudi.timeline.commit_metadata import WriteStat

COLUMN_RECORD = 3
"""The type of a row of a column of a file."""

_FIELD = "ColumnStatsMetadata"
_NAMESPACE = "org.apache.hudi.avro.model"
_FIRST_VERSION_DIGITS = "30,15"
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
        if record.content is None:
            return None
        with faults_named("records of a metadata table are not understood", path=record.path):
            said = record.content[_FIELD]
            if said is None:
                raise CorruptTableError("a record of another kind among statistics")
            if said["isDeleted"]:
                return None
            counts = [
                said[name] or 0
                for name in ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")
            ]
            bounds = _bounds(said)
            found = ColumnRange(*bounds, *counts)
            tight = bool(said.get("isTightBound", False))
            has_type = said.get("valueType") is not None
            return cls(said["fileName"], said["columnName"], found, tight, has_type)

    def stored(self, key: str, kind: int, *, has_types: bool) -> MetadataRecord:
        """As it is written under a key, in one of the versions of the index."""
        found = self.range
        said = {
            "fileName": self.file,
            "columnName": self.column,
            "minValue": _wrapped(found.least, found.type, has_types=has_types),
            "maxValue": _wrapped(found.greatest, found.type, has_types=has_types),
            "valueCount": found.values,
            "nullCount": found.nulls,
            "totalSize": found.size_bytes,
            "totalUncompressedSize": found.plain_bytes,
            "isDeleted": False,
            "isTightBound": self.is_tight,
            "valueType": {"typeOrdinal": found.type.kind.value, "additionalInfo": found.type.digits}
            if has_types
            else None,
        }
        return MetadataRecord(key, {"type": kind, _FIELD: said})


class ColumnStatsPartition:
    """`column_stats`."""

    name = COLUMN_STATS
    file_id_prefix = "col-stats"
    groups_made = 2
    is_in_every_table = False

    def initial(self, table: HoodieTable, timeline: ActiveTimeline) -> tuple[MetadataRecord, ...]:
        raise NotImplementedError("statistics of files are not built here")

    def changes(
        self,
        change: TableChange,
        stored: StoredRecords | None = None,  # noqa: ARG002 -- no row depends on others
    ) -> list[MetadataRecord] | CannotFollow:
        indexed = columns_at(change)
        if isinstance(indexed, CannotFollow):
            return indexed
        gone = [
            MetadataRecord(key_of(column, *split_path(path)), None)
            for path in change.deleted
            for column in indexed.names
        ]
        rows: list[MetadataRecord] = []
        for stat in written_files(change):
            ranges = ranges_of(stat, indexed)
            if isinstance(ranges, CannotFollow):
                return ranges
            partition, name = split_path(stat.path or "")
            rows += [
                ColumnRow(name, column, found, is_tight=True).stored(
                    key_of(column, partition, name), COLUMN_RECORD, has_types=indexed.has_types
                )
                for column, found in ranges.items()
            ]
        return gone + rows

    def merged(self, records: Iterable[MetadataRecord]) -> list[MetadataRecord]:
        return merged_rows(records)

    def verify(
        self,
        records: Iterable[MetadataRecord],  # noqa: ARG002
        seen: SeenTable,  # noqa: ARG002
    ) -> Iterator[Discrepancy]:
        """Rows are compared with files where these are read (`check.statistics`)."""
        return iter(())


COLUMN_STATS_PARTITION = ColumnStatsPartition()


def key_of(column: str, partition: str, file_name: str) -> str:
    """The key of a row of a file."""
    return column_id(column) + partition_id(partition) + file_id_hash(file_name)


def columns_at(change: TableChange) -> IndexedColumns | CannotFollow:
    """The columns that are indexed when a change completes, or why statistics end with it."""
    config = change.table.config
    if COLUMN_STATS not in config.metadata_partitions:
        return CannotFollow("the table has no statistics of files")
    reason = _without_bounds(change.table)
    if reason is not None:
        return CannotFollow(reason)
    schema_json = change.written.schema_json if change.written is not None else None
    schema_json = schema_json or change.table.schemas.newest_json(change.timeline)
    if schema_json is None:
        return CannotFollow("no commit says the table's schema")
    found = indexed_columns(change.table, schema_json)
    return CannotFollow(found) if isinstance(found, str) else found


def columns_to_measure(table: HoodieTable, schema_json: str) -> tuple[str, ...] | None:
    """The columns whose ranges writers of files find out; None where the table has no statistics.

    Raises CorruptTableError where the definitions of indexes cannot be read.
    """
    if COLUMN_STATS not in table.config.metadata_partitions or _without_bounds(table) is not None:
        return None
    found = indexed_columns(table, schema_json)
    return None if isinstance(found, str) else found.names


def written_files(change: TableChange) -> Iterator[WriteStat]:
    """The stats of the files that a change adds."""
    stats = change.written.write_stats if change.written is not None else ()
    return (stat for stat in stats if stat.path)


def ranges_of(stat: WriteStat, indexed: IndexedColumns) -> ColumnRanges | CannotFollow:
    """The ranges of all columns that are indexed, by what the task says that wrote the file."""
    ranges = stat.column_ranges
    if ranges is None or any(name not in ranges for name in indexed.names):
        return CannotFollow(f"the ranges of columns of {stat.path} are not known")
    found = {}
    for name in indexed.names:
        typed = retyped(ranges[name], indexed.types[name])
        if typed is None:
            return CannotFollow(f"{name} of {stat.path} has another type than the table's column")
        if isinstance(typed.greatest, float) and isnan(typed.greatest):
            return CannotFollow(f"{name} of {stat.path} holds NaN, which queries of Hudi's lose")
        found[name] = typed
    return found


def merged_rows(records: Iterable[MetadataRecord]) -> list[MetadataRecord]:
    """The rows that count of each key: the newest one, or the sum of several that are not tight."""
    newest: dict[str, list[MetadataRecord]] = {}
    for record in records:
        is_added = record.content is not None and not record.content[_FIELD].get("isTightBound")
        if is_added and newest.get(record.key):
            newest[record.key].append(record)
        else:
            newest[record.key] = [] if record.content is None else [record]
    return [_added(found) for found in newest.values() if found]


def rows_of(records: Iterable[MetadataRecord]) -> Mapping[str, ColumnRow]:
    """The rows that records say together, oldest first, by their keys."""
    rows = ((record.key, ColumnRow.parse(record)) for record in merged_rows(records))
    return {key: row for key, row in rows if row is not None}


def _without_bounds(table: HoodieTable) -> str | None:
    """Why rows that are read may lie outside the bounds of their files."""
    config = table.config
    if config.table_type is not TableType.MERGE_ON_READ:
        return None
    if config.partial_updates is not None:
        return "rows are filled up from several files when they are read"
    if config.known_merge_mode is None:
        return "rows are merged in a way of their own when they are read"
    return None


def _added(records: list[MetadataRecord]) -> MetadataRecord:
    """Rows of one key as one."""
    if len(records) == 1:
        return records[0]
    rows = [row for record in records if (row := ColumnRow.parse(record)) is not None]
    content = records[-1].content
    if not rows or content is None:
        return records[-1]
    whole = united((row.range for row in rows), rows[-1].range.type)
    kept = ColumnRow(rows[-1].file, rows[-1].column, whole)
    has_types = content[_FIELD].get("valueType") is not None
    return kept.stored(records[-1].key, content["type"], has_types=has_types)


def _wrapped(bound: Bound | None, kind: ValueType, *, has_types: bool) -> Any:
    """A bound as Avro's union of wrappers has it."""
    if bound is None:
        return None
    wrapper = _WRAPPERS.get(kind.kind, "Long")
    value: Any = bound
    if not has_types:
        wrapper = _FIRST_VERSION_WRAPPERS.get(kind.kind, wrapper)
    if kind.kind is ValueKind.DECIMAL and isinstance(bound, int):
        digits = (bound if bound >= 0 else ~bound).bit_length() // 8 + 1
        value = (
            bound.to_bytes(digits, "big", signed=True)
            if has_types
            else Decimal(bound).scaleb(-kind.scale)
        )
    return f"{_NAMESPACE}.{wrapper}Wrapper", {"value": value}


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
            kind = ValueType(ValueKind.DECIMAL, _FIRST_VERSION_DIGITS)
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
