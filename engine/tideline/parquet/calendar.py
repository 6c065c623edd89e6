"""Which calendar the dates and times of a parquet file are in.

Spark before 3.0 stored days and times in Java's old calendar, Julian until 1582-10-15, and later
versions still do where a setting says so. Their readers look into the footer: a file of a Spark
version of 3.0 (INT96: 3.1) or later that names no legacy calendar is Gregorian throughout; a file
without a Spark version is refused, or shifted, as the reader is set (Spark 3 refuses by default).
What Arrow writes is Gregorian, so our files say what Spark's do. In files of the old calendar days
before the change, and times before zones were standardised, are other values than they look like.

Source: Spark's ParquetWriteSupport.init, DataSourceUtils.datetimeRebaseSpec and int96RebaseSpec,
RebaseDateTime.lastSwitchJulianDay and lastSwitchJulianTs; Hudi's HoodieRowParquetWriteSupport.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from tideline.errors import UnsupportedTableError

SPARK_VERSION_KEY = "org.apache.spark.version"
LEGACY_DATETIME_KEY = "org.apache.spark.legacyDateTime"
LEGACY_INT96_KEY = "org.apache.spark.legacyINT96"
# Written by every Spark, and by those before 2.4.6 without their version.
SPARK_ROW_KEY = "org.apache.spark.sql.parquet.row.metadata"

GREGORIAN_FOOTER: Mapping[str, str] = {SPARK_VERSION_KEY: "3.5.0"}
"""Footer entries by which Spark, and Hudi in it, takes every date and time as it is stored."""

_DATETIME_SINCE = (3, 0)
_INT96_SINCE = (3, 1)
_INT96 = "INT96"

_GREGORIAN_DAY = -141_427
"""1582-10-15: days from here on are the same in both calendars."""
_STANDARD_TIME_US = -2_208_988_800_000_000
"""1900-01-01 UTC: times from here on are the same in both, in every zone."""
_MICROS_PER = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True, slots=True)
class FileCalendar:
    """What of a file is in the old calendar: days and plain times, or times stored as INT96."""

    old_datetimes: bool = False
    old_int96: bool = False

    @classmethod
    def of(cls, metadata: pq.FileMetaData) -> FileCalendar:
        """The calendar that a footer names; Gregorian where it says nothing of Spark."""
        entries = metadata.metadata or {}
        version = _version(entries)
        if version is None:
            return cls()
        return cls(
            version < _DATETIME_SINCE or LEGACY_DATETIME_KEY.encode() in entries,
            (version < _INT96_SINCE or LEGACY_INT96_KEY.encode() in entries)
            and _has_int96(metadata),
        )

    def check_all(self, rows: pa.RecordBatch | pa.Table, path: object) -> None:
        """Raise UnsupportedTableError naming the first column with a value that the calendars read
        differently."""
        if not self.is_old:
            return
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            found = self.shifted(column)
            if found is not None:
                raise UnsupportedTableError(
                    f"column {name} is stored in the calendar that Spark had before 3.0, where "
                    "this early value is another day or time than it reads; rewrite it with Hudi "
                    "on Spark 3 and spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED",
                    path=path,
                    value=found,
                )

    @property
    def is_old(self) -> bool:
        """Whether any value may be another than it looks like."""
        return self.old_datetimes or self.old_int96

    def shifted(self, column: pa.Array | pa.ChunkedArray) -> str | None:
        """The earliest value of a column that the two calendars read differently, None without any.

        Nested columns count. Where one kind of time is old, all times of the file are looked at.
        """
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        for chunk in chunks:
            for leaf in _leaves(chunk):
                found = self._earliest(leaf)
                if found is not None:
                    return found
        return None

    def _earliest(self, leaf: pa.Array) -> str | None:
        if types.is_date32(leaf.type) and self.old_datetimes:
            limit = pa.scalar(_GREGORIAN_DAY, pa.int32()).cast(leaf.type)
        elif types.is_timestamp(leaf.type) and leaf.type.unit in _MICROS_PER:
            counted = _STANDARD_TIME_US // _MICROS_PER[leaf.type.unit]
            limit = pa.scalar(counted, pa.int64()).cast(leaf.type)
        else:
            return None
        least = pc.min(leaf)
        if not least.is_valid or not pc.less(least, limit).as_py():
            return None
        return str(least.cast(pa.string()))


def _version(entries: Mapping[bytes, bytes]) -> tuple[int, int] | None:
    """Major and minor version of the Spark that wrote a file, None where it was no Spark's."""
    text = entries.get(SPARK_VERSION_KEY.encode())
    if text is None:
        return (2, 4) if SPARK_ROW_KEY.encode() in entries else None
    parts = text.decode("ascii", "replace").split(".")
    numbers = [int(part) if part.isdecimal() else 0 for part in (*parts, "0", "0")[:2]]
    return numbers[0], numbers[1]


def _has_int96(metadata: pq.FileMetaData) -> bool:
    schema = metadata.schema
    return any(
        schema.column(index).physical_type == _INT96 for index in range(metadata.num_columns)
    )


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The columns of single values that a nested one consists of."""
    if isinstance(array, pa.StructArray):
        for index in range(array.type.num_fields):
            yield from _leaves(array.field(index))
    elif isinstance(array, pa.MapArray):
        yield from _leaves(array.keys)
        yield from _leaves(array.items)
    elif isinstance(array, (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)):
        yield from _leaves(array.values)
    else:
        yield array
