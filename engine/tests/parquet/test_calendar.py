"""The calendar of a parquet file's dates, as Spark's readers take it from the footer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import UnsupportedTableError
from tideline.parquet.calendar import GREGORIAN_FOOTER, FileCalendar

SPARK = "org.apache.spark."
LEGACY = {f"{SPARK}version": "3.5.8", f"{SPARK}legacyDateTime": "", f"{SPARK}timeZone": "UTC"}
LEGACY_INT96 = {f"{SPARK}version": "3.5.8", f"{SPARK}legacyINT96": ""}
ROW_METADATA = {f"{SPARK}sql.parquet.row.metadata": "{}"}
EARLY_DAY = dt.date(1582, 10, 14)
EARLY_TIME = dt.datetime(1899, 12, 31, 23, 59, tzinfo=dt.UTC)


def metadata(entries: Mapping[str, str], *, int96: bool = False) -> pq.FileMetaData:
    rows = pa.table({"at": pa.array([0], pa.timestamp("us"))})
    body = BytesIO()
    with pq.ParquetWriter(body, rows.schema, use_deprecated_int96_timestamps=int96) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(dict(entries))
    return pq.read_metadata(pa.BufferReader(body.getvalue()))


@pytest.mark.parametrize(
    ("entries", "int96", "calendar"),
    [
        (GREGORIAN_FOOTER, True, FileCalendar()),
        ({}, True, FileCalendar()),
        ({"parquet.avro.schema": "{}"}, False, FileCalendar()),
        (LEGACY, False, FileCalendar(old_datetimes=True)),
        (LEGACY_INT96, True, FileCalendar(old_int96=True)),
        (LEGACY_INT96, False, FileCalendar()),
        ({f"{SPARK}version": "2.4.8"}, False, FileCalendar(old_datetimes=True)),
        (ROW_METADATA, True, FileCalendar(old_datetimes=True, old_int96=True)),
        ({f"{SPARK}version": "3.0.2"}, True, FileCalendar(old_int96=True)),
        ({f"{SPARK}version": "10.0.0", **ROW_METADATA}, True, FileCalendar()),
    ],
)
def test_the_footer_names_the_calendar(
    entries: Mapping[str, str], int96: bool, calendar: FileCalendar
) -> None:
    assert FileCalendar.of(metadata(entries, int96=int96)) == calendar


@pytest.mark.parametrize(
    ("values", "kind", "early"),
    [
        ([dt.date(1582, 10, 15), None], pa.date32(), False),
        ([dt.date(1582, 10, 15), EARLY_DAY], pa.date32(), True),
        ([[dt.date(2020, 1, 1)], None, [EARLY_DAY]], pa.list_(pa.date32()), True),
        ([{"day": EARLY_DAY}], pa.struct([("day", pa.date32())]), True),
        ([[("a", EARLY_DAY)]], pa.map_(pa.string(), pa.date32()), True),
        ([dt.datetime(1900, 1, 1)], pa.timestamp("us"), False),
        ([EARLY_TIME], pa.timestamp("us", tz="UTC"), True),
        ([EARLY_TIME], pa.timestamp("ms"), True),
        (["0001-01-01"], pa.string(), False),
        ([None], pa.date32(), False),
    ],
)
def test_only_values_that_the_calendars_read_differently_are_refused(
    values: list[object], kind: pa.DataType, early: bool
) -> None:
    rows = pa.table({"fine": pa.nulls(len(values), pa.date32()), "c": pa.array(values, kind)})
    FileCalendar().check_all(rows, "p/f.parquet")
    if not early:
        FileCalendar(old_datetimes=True).check_all(rows, "p/f.parquet")
        return
    with pytest.raises(UnsupportedTableError, match=r"column c .*path=p/f.parquet, value=1"):
        FileCalendar(old_datetimes=True).check_all(rows, "p/f.parquet")


def test_where_only_int96_times_are_old_days_are_not() -> None:
    calendar = FileCalendar(old_int96=True)
    calendar.check_all(pa.table({"day": [EARLY_DAY]}), None)
    with pytest.raises(UnsupportedTableError, match="column at"):
        calendar.check_all(pa.table({"at": [EARLY_TIME]}), None)
