"""Rows that cannot be taken in: in which file and where, which column is at fault, and why.

Rows of text files that do not fit their columns come with their text (see `BAD_RECORD`); others
are found by conditions on their values. The place of a row follows from its arrival number:

- parquet: the number holds the row's index in the file;
- text: rows are counted as tasks read them, so the rows of the parts of a file before it are added.

A row is counted from 1, without the header line.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tideline.bad_input import BadRow
from tideline.hudi.table.meta_column import is_meta_column
from tideline.hudi.write.batch_rules import ARRIVAL
from tideline.spark.quoting import column_named
from tideline.spark.source_files.arrival import PARQUET_ROW_BITS, TEXT_PART_BITS, TEXT_ROW_BITS
from tideline.spark.source_files.sources import BAD_RECORD
from tideline.wording import counted

BAD_ROWS_MAX = 10_000
"""So many rows are set aside at a time; files with more of them together wait their turn."""
_SHOWN_LENGTH_MAX = 40
_REPLACEMENT = "\ufffd"
"""What Spark puts in the place of bytes that are not UTF-8."""
NULLS = "_tideline_nulls"
_FAULT = "_tideline_fault"
_SHOWN = "_tideline_shown"
_BAD = "_tideline_bad"
_DIGEST = "_tideline_digest"
_RECORD = "_tideline_record"
_PART = "_tideline_part"


@dataclass(frozen=True, slots=True)
class BadRows:
    """Bad rows by path: how many a file has, and all of them, or the first where they are too many.

    `waiting` are files whose rows would be set aside, but not with those of the files before them.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    found: Mapping[str, tuple[BadRow, ...]] = field(default_factory=dict)
    waiting: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RowFault:
    """What makes a row bad; `column` is the one to name, `shown` what the reason may show."""

    condition: Column
    column: str
    reason: str
    shown: Column | None = None


@dataclass(frozen=True, slots=True)
class Places:
    """Where rows are in the files `paths`, by their arrival number."""

    paths: tuple[str, ...]
    is_text: bool
    parts: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, source: DataFrame, paths: Sequence[str], *, is_text: bool) -> Places:
        """Counts the rows of each part of text files: pass a frame that is kept."""
        if not is_text:
            return cls(tuple(paths), is_text)
        part = F.shiftright(ARRIVAL, TEXT_ROW_BITS).alias(_PART)
        counts = source.groupBy(part).agg(F.min(ARRIVAL).alias("first"), F.count("*").alias("rows"))
        parts: dict[int, tuple[int, int]] = {}
        rows_before: dict[int, int] = {}
        for row in sorted(counts.collect(), key=lambda row: row[_PART]):
            file = row[_PART] >> TEXT_PART_BITS
            parts[row[_PART]] = (row.first, rows_before.get(file, 0))
            rows_before[file] = rows_before.get(file, 0) + row["rows"]
        return cls(tuple(paths), is_text, parts)

    @property
    def file_bits(self) -> int:
        """How many bits of an arrival number are below the number of the file."""
        return TEXT_PART_BITS + TEXT_ROW_BITS if self.is_text else PARQUET_ROW_BITS

    def path(self, arrival: int) -> str:
        return self.paths[arrival >> self.file_bits]

    def row(self, arrival: int) -> int:
        """The number of a row in its file, from 1."""
        if not self.is_text:
            return (arrival & ((1 << PARQUET_ROW_BITS) - 1)) + 1
        first, rows_before = self.parts[arrival >> TEXT_ROW_BITS]
        return rows_before + arrival - first + 1


def find_unparsed_rows(
    source: DataFrame,
    places: Places,
    explain: Callable[[str, Row], tuple[str, str]],
    rows_max: int,
) -> BadRows:
    """Rows whose text does not fit; `source` has `BAD_RECORD`.

    `explain` gets a row's path and the row: `BAD_RECORD` and, by column, whether it is null.
    """
    columns = [name for name in source.columns if name not in (ARRIVAL, BAD_RECORD)]
    nulls = F.struct(*[column_named(name).isNull().alias(name) for name in columns])
    looked_at = source.select(
        F.col(ARRIVAL),
        F.col(BAD_RECORD).isNotNull().alias(_BAD),
        F.col(BAD_RECORD),
        F.xxhash64(BAD_RECORD).alias(_DIGEST),
        nulls.alias(NULLS),
    )

    def describe(path: str, row: Row) -> tuple[str, str, str]:
        column, reason = explain(path, row)
        return column, reason, row[BAD_RECORD]

    return _find(looked_at, places, describe, rows_max)


def find_faulty_rows(
    rows: DataFrame, places: Places, faults: Sequence[RowFault], rows_max: int
) -> BadRows:
    """Rows that any of `faults` holds for."""
    number = F.lit(None).cast("int")
    shown = F.lit(None).cast("string")
    for place, fault in reversed(list(enumerate(faults))):
        number = F.when(fault.condition, F.lit(place)).otherwise(number)
        value = fault.shown if fault.shown is not None else F.lit(None).cast("string")
        shown = F.when(fault.condition, value).otherwise(shown)
    looked_at = rows.select(
        F.col(ARRIVAL),
        number.isNotNull().alias(_BAD),
        number.alias(_FAULT),
        shown.alias(_SHOWN),
        record_text(rows).alias(_RECORD),
        F.xxhash64(record_text(rows)).alias(_DIGEST),
    )

    def describe(_: str, row: Row) -> tuple[str, str, str]:
        fault = faults[row[_FAULT]]
        value = "" if row[_SHOWN] is None else f"{shortened(row[_SHOWN])!r} "
        return fault.column, value + fault.reason, row[_RECORD]

    return _find(looked_at, places, describe, rows_max)


def record_text(rows: DataFrame) -> Column:
    """A row's values as JSON, without its place and what Hudi put into an export."""
    own = [name for name in rows.columns if name != ARRIVAL and not is_meta_column(name)]
    columns = [column_named(name) for name in own]
    return F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})


def any_fault(faults: Iterable[RowFault]) -> Column:
    """Whether a row is bad."""
    bad = F.lit(False)
    for fault in faults:
        bad = bad | F.coalesce(fault.condition, F.lit(False))
    return bad


def explain_csv(
    record: str, names: Sequence[str], nulls: Mapping[str, bool], kinds: Mapping[str, str],
    *, sep: str, quote: str,
) -> tuple[str, str]:  # fmt: skip
    """The column at fault in a line of csv, empty when it is none alone, and why.

    `nulls` and `kinds` (the types) are keyed by name in lower case.
    """
    try:
        values = next(csv.reader(io.StringIO(record, newline=""), delimiter=sep, quotechar=quote))
    except (csv.Error, TypeError, StopIteration):
        return "", "it cannot be read as csv"
    if len(values) != len(names):
        has = f"{counted(len(values), 'value')} where there are {counted(len(names), 'column')}"
        return "", f"it has {has}"
    for name, value in zip(names, values, strict=True):
        if value and nulls.get(name.lower()):
            return name, f"{shortened(value)!r} is not of type {kinds.get(name.lower(), 'value')}"
    return "", "it does not fit its columns"


def explain_json(
    record: str, nulls: Mapping[str, bool], kinds: Mapping[str, str]
) -> tuple[str, str]:
    """The column at fault in a line of JSON, empty when it is none alone, and why."""
    try:
        values = json.loads(record)
    except (ValueError, RecursionError) as error:
        return "", f"it is not JSON, and one object a line is expected: {error}"
    if not isinstance(values, dict):
        return "", "it is not a JSON object"
    for name, value in values.items():
        if value is not None and nulls.get(name.lower()):
            if isinstance(value, str) and _REPLACEMENT in value:
                return name, "it is not UTF-8"
            kind = kinds.get(name.lower(), "value")
            return name, f"{shortened(json.dumps(value))} is not of type {kind}"
    return "", "a value inside it does not fit its type"


def shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[: _SHOWN_LENGTH_MAX - 3]}..."


def kinds_of(schema: T.StructType) -> dict[str, str]:
    """Spark's names of the columns' types, by column name in lower case."""
    return {item.name.lower(): item.dataType.simpleString() for item in schema}


def _find(
    looked_at: DataFrame,
    places: Places,
    describe: Callable[[str, Row], tuple[str, str, str]],
    rows_max: int,
) -> BadRows:
    file = F.shiftright(ARRIVAL, places.file_bits)
    bad = looked_at.where(F.col(_BAD))
    counts = bad.groupBy(file.alias("file")).agg(
        F.count("*").alias("rows"), F.min(ARRIVAL).alias("first")
    )
    whole: list[int] = []
    firsts: list[int] = []
    waiting: set[str] = set()
    total = 0
    per_file: dict[str, int] = {}
    for row in sorted(counts.collect(), key=lambda row: row.file):
        path = places.paths[row.file]
        per_file[path] = row["rows"]
        if row["rows"] > rows_max:
            firsts.append(row.first)
        elif total + row["rows"] > BAD_ROWS_MAX:
            waiting.add(path)
        else:
            total += row["rows"]
            whole.append(row.file)
    if not per_file:
        return BadRows()
    found: dict[str, list[BadRow]] = {}
    wanted = bad.where(file.isin(whole) | F.col(ARRIVAL).isin(firsts))
    for row in sorted(wanted.collect(), key=lambda row: row[ARRIVAL]):
        path = places.path(row[ARRIVAL])
        column, reason, record = describe(path, row)
        number = places.row(row[ARRIVAL])
        found.setdefault(path, []).append(BadRow(number, column, reason, record, row[_DIGEST]))
    rows = {path: tuple(items) for path, items in found.items()}
    return BadRows(per_file, rows, frozenset(waiting))
