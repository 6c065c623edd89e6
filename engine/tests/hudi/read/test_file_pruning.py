"""A selective read opens only the files that may hold its rows, and finds all of them."""

from __future__ import annotations

import datetime as dt
import logging
import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.datasource import EqualTo

from tideline.formats.row_filter import RowFilter
from tideline.hudi.metadata_table.column_row import ColumnRow
from tideline.hudi.read.arrow_scan import nullable
from tideline.hudi.read.file_pruning import slices_with_rows
from tideline.hudi.read.snapshot import plan_snapshot
from tideline.hudi.table.partial_updates import PartialUpdateMode, PartialUpdates
from tideline.hudi.table.stored_names import StoredName, StoredNames
from tideline.hudi.table.table_config import METADATA_PARTITIONS, TableType
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.spark.arrow_types import arrow_to_spark
from tideline.spark.read.data_source import TidelineReader
from tideline.testing.reads_by_statistics import (
    OpenedFiles,
    compare_reads,
    rewritten_rows,
)
from tideline.testing.small_table import QUIET
from tideline.testing.table_of_statistics import TableOfStatistics

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("f", pa.float64()),
        ("i", pa.int32()),
        ("n", pa.int64()),
        ("b", pa.bool_()),
        ("s", pa.string()),
        ("long", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
    ]
)
INDEXED = [name for name in SCHEMA.names if name != "f"]
"""Not `f`, for statistics end with NaN."""
PARTITIONS = 10
START = dt.datetime(2020, 1, 1)
IGNORED = PartialUpdates(PartialUpdateMode.IGNORE_DEFAULTS)
TYPES = [TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ]


def id_of(key: int) -> str:
    return f"k{key % PARTITIONS}-{key // PARTITIONS:03}"


def values_of(key: int, v: int) -> dict[str, Any]:
    """A row: values of the keys of one partition are near each other."""
    near = key % PARTITIONS * 100 + key // PARTITIONS + v
    day = START + dt.timedelta(days=near)
    row = {
        "i": near - 500,
        "n": (near - 500) * 10**12,
        "b": key % PARTITIONS < 5,
        "s": f"{near // 100:03}{('a', chr(0xFF21), chr(0x1F600))[near % 3]}{near}",
        "long": f"{near:04}" + "y" * (1100 if near % 3 else 5),
        "amount": Decimal(near - 500) / 4,
        "day": day.date(),
        "at": day.replace(tzinfo=dt.UTC),
        "local": day + dt.timedelta(microseconds=near),
    }
    if key % PARTITIONS == 3:
        row |= dict.fromkeys([*row][key % 2 :: 2])
    values = {"f": float("nan") if near % 4 == 0 else near / 3, **row}
    return {"id": id_of(key), "part": f"p{key % PARTITIONS}", **values}


def rows_of(keys: Any, v: int = 0) -> pa.Table:
    return pa.Table.from_pylist([values_of(key, v) for key in keys], SCHEMA)


class Statistics(TableOfStatistics):
    """A table with statistics, of a file in each partition."""

    def __init__(self, table_type: TableType = TableType.COPY_ON_WRITE, version: int = 9) -> None:
        super().__init__(SCHEMA, INDEXED, table_type, version)

    def write(self, keys: Any, v: int = 0, operation: str = "upsert") -> None:
        self.lake().write(rows_of(keys, v), operation, options=QUIET)

    def compare(self, condition: Any) -> tuple[int, int]:
        """Files opened without statistics and with them, for the same rows."""
        return compare_reads(self.read, condition)


@pytest.fixture(params=TYPES, ids=str)
def table(request: pytest.FixtureRequest) -> Iterator[Statistics]:
    made = Statistics(request.param)
    made.write(range(40), operation="insert")
    yield made


@pytest.fixture
def copied() -> Statistics:
    made = Statistics()
    made.write(range(40), operation="insert")
    return made


CONDITIONS = {
    "i = 203": 1,
    "i < -490": 1,
    "n > 399000000000000": 2,
    "s = '007a702'": 1,
    "amount = 50.5": 1,
    "day = '2021-11-23'": 1,
    "at >= '2022-06-21T00:00:00Z' and at < '2022-06-24T00:00:00Z'": 1,
    "local < '2020-01-04'": 1,
    "b = true and i > -50": 0,
    "id = 'k4-001'": 1,
    "_hoodie_record_key = 'k4-001'": 1,
    "i in (203, 601)": 2,
    "i = 203 or amount = -125": 2,
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_only_files_that_may_hold_rows_are_opened(table: Statistics, condition: str) -> None:
    before, after = table.compare(condition)
    assert before == PARTITIONS
    # Of the partition with nulls what is said beside them does not count.
    assert after <= CONDITIONS[condition] + 2
    assert after < before


def test_partition_columns_are_left_to_paths_and_other_columns_to_files(copied: Statistics) -> None:
    assert copied.compare("part = 'p4'") == (1, 1)
    assert copied.compare("f > 100") == (PARTITIONS, PARTITIONS)
    assert copied.compare("f > 100 and i = 203")[1] <= 2


def test_slices_with_logs_are_left_out_by_all_of_their_files() -> None:
    table = Statistics(TableType.MERGE_ON_READ)
    table.write(range(40), operation="insert")
    table.write([7, 17], 30_000)
    assert table.read("i = 203") == (["k7-003"], 2)
    moved = table.compare("i > 29000")
    assert moved == (PARTITIONS + 1, 2), "the base file that the log is merged with, and the log"
    table.write([8], operation="delete")
    assert table.compare("i = 303")[1] < PARTITIONS
    assert table.compare("i = 4")[1] < PARTITIONS
    assert table.compare("_hoodie_record_key = 'k8-000'")[1] <= PARTITIONS + 2


def random_condition(chosen: random.Random) -> pc.Expression:
    name = chosen.choice([*INDEXED[2:], "f", "id"])
    column = pc.field(name)
    value = values_of(chosen.randrange(80), chosen.choice([0, 0, 5, 30_000]))[name]
    if value is None or chosen.random() < 0.1:
        found = chosen.choice([column.is_null(), column.is_valid()])
    else:
        scalar = pa.scalar(value, SCHEMA.field(name).type)
        found = chosen.choice(
            [
                column == scalar,
                column == scalar,
                column != scalar,
                column < scalar,
                column <= scalar,
                column > scalar,
                column >= scalar,
                column.isin(pa.array([value], SCHEMA.field(name).type)),
            ]
        )
    if chosen.random() < 0.4:
        other = random_condition(chosen)
        found = chosen.choice([found & other, found | other, found & ~other])
    return found


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("table_type", TYPES, ids=str)
def test_random_conditions_find_the_same_rows(table_type: TableType, version: int) -> None:
    chosen = random.Random(20261127)
    table = Statistics(table_type, version)
    table.write(range(40), operation="insert")
    opened = [0, 0]
    for step in range(3):
        for _ in range(25):
            before, after = table.compare(random_condition(chosen))
            opened[0] += before
            opened[1] += after
        table.write(chosen.sample(range(60), 6), chosen.choice([1, 5, 30_000]))
        table.write([chosen.randrange(40)], operation="delete")
        assert "column_stats" in table.lake().hoodie_table.config.metadata_partitions, step
    assert opened[1] < 0.9 * opened[0]


def no_statistics_of(column: str, bound: Any) -> Callable[[ColumnRow], ColumnRow]:
    """Rows as Hudi makes them of footers that say nothing of a column."""

    def lying(row: ColumnRow) -> ColumnRow:
        if row.column != column:
            return row
        found = replace(row.range, least=bound, greatest=bound, nulls=row.range.values)
        return replace(row, range=found, is_tight=False)

    return lying


@pytest.mark.parametrize(
    ("column", "bound", "condition"),
    [
        ("i", 0, "i = 203"),
        ("i", 0, "i is not null"),
        ("b", False, "b = true"),
        ("day", 0, "day = '2021-11-23'"),
        ("s", None, "s = '007a702'"),
        ("amount", None, "amount = 50.5"),
    ],
)
def test_rows_of_files_without_statistics_lose_nothing(
    copied: Statistics, column: str, bound: Any, condition: str
) -> None:
    with rewritten_rows(no_statistics_of(column, bound)):
        assert copied.compare(condition) == (PARTITIONS, PARTITIONS)


def changed(column: str, **parts: Any) -> Callable[[ColumnRow], ColumnRow]:
    """Rows of a column with another range."""

    def other(row: ColumnRow) -> ColumnRow:
        if row.column != column:
            return row
        return replace(row, range=replace(row.range, **parts), is_tight=False)

    return other


@pytest.mark.parametrize(
    ("column", "parts", "condition"),
    [
        # One row group of several is without statistics: 0 stands for it, or nothing.
        ("i", {"least": 0, "greatest": 5, "nulls": 2}, "i = 203"),
        ("amount", {"least": 0, "greatest": 5, "nulls": 2}, "amount = 50.5"),
        ("s", {"least": "a", "greatest": "b", "nulls": 2}, "s = '007a702'"),
        # One of several has text that is too long for bounds.
        ("s", {"least": "a", "greatest": "b", "plain_bytes": 5000}, "s = '007a702'"),
        ("s", {"least": None, "greatest": None}, "s = '007a702'"),
        # The calendar that Spark had.
        ("day", {"least": -200_000, "greatest": -100_000}, "day = '2021-11-23'"),
        # Compared by units of UTF-16.
        ("s", {"least": "0", "greatest": "001\uff21"}, "s = '001\U0001f600101'"),
        ("s", {"least": "001\U0001f600", "greatest": "9"}, "s = '001\uff21100'"),
        ("i", {"least": 9, "greatest": 5}, "i = 203"),
        ("i", {"least": "x", "greatest": "y"}, "i = 203"),
        ("i", {"least": 9, "greatest": 9, "nulls": -1}, "i = 203"),
    ],
)
def test_bounds_that_may_be_wrong_leave_nothing_out(
    copied: Statistics, column: str, parts: dict[str, Any], condition: str
) -> None:
    with rewritten_rows(changed(column, **parts)):
        assert copied.compare(condition) == (PARTITIONS, PARTITIONS)


def test_times_of_the_first_version_have_no_unit(copied: Statistics) -> None:
    def first_version(row: ColumnRow) -> ColumnRow:
        return replace(row, has_type=False)

    with rewritten_rows(first_version):
        assert copied.compare("at = '2022-06-21T00:00:00Z'") == (PARTITIONS, PARTITIONS)
        assert copied.compare("i = 203")[1] <= 2


def test_a_file_without_rows_is_opened(copied: Statistics) -> None:
    with rewritten_rows(lambda row: None if row.column == "i" else row):
        assert copied.compare("i = 203") == (PARTITIONS, PARTITIONS)
        assert copied.compare("i = 203 and s = '007a702'")[1] <= 2, "by the other column"


def test_a_log_without_a_row_of_a_column_keeps_its_slice() -> None:
    table = Statistics(TableType.MERGE_ON_READ)
    table.write(range(40), operation="insert")
    table.write([7], 30_000)

    def without(row: ColumnRow) -> ColumnRow | None:
        return None if row.column == "s" and ".log." in row.file else row

    condition = "i = 203 and s = '007a702'"
    with rewritten_rows(without):
        assert table.read(condition)[1] == table.read("id = 'k7-000'")[1]


class Renamed:
    """A history in which the column `i` had another name in every file."""

    def names_at(self, instant: InstantTime) -> StoredNames:
        del instant
        return StoredNames({"i": StoredName("old")})


def test_a_column_that_files_have_under_another_name_leaves_nothing_out(
    copied: Statistics,
) -> None:
    hoodie = copied.lake().hoodie_table
    scan = plan_snapshot(hoodie)
    context = scan.slice_context(hoodie)
    slices = scan.all_slices()
    condition = RowFilter.of("i = 203", nullable(scan.schema))
    assert len(slices_with_rows(hoodie, slices, condition, context, None)) == 1
    history: Any = Renamed()
    renamed = replace(context, history=history)
    assert slices_with_rows(hoodie, slices, condition, renamed, None) == slices


def test_the_data_source_of_spark_leaves_files_out(copied: Statistics) -> None:
    hoodie = copied.lake().hoodie_table
    scan = plan_snapshot(hoodie)
    reader = TidelineReader(hoodie, scan, arrow_to_spark(scan.schema))
    assert len(reader.partitions()) == PARTITIONS
    assert list(reader.pushFilters([EqualTo(("i",), 203)])) == [EqualTo(("i",), 203)]
    (left,) = reader.partitions()
    assert [
        row
        for batch in pickle.loads(pickle.dumps(reader)).read(left)
        for row in batch["i"].to_pylist()
    ] == [203]


@pytest.mark.parametrize(
    "rule", [{"partial": IGNORED}, {"merge_mode": None}], ids=["partial", "own"]
)
def test_slices_that_are_merged_by_other_rules_are_kept(rule: dict[str, Any]) -> None:
    table = Statistics(TableType.MERGE_ON_READ)
    table.write(range(40), operation="insert")
    table.write([7], 30_000)
    assert table.compare("i > 40000") == (PARTITIONS + 1, 0)
    hoodie = table.lake().hoodie_table
    scan = plan_snapshot(hoodie)
    condition = RowFilter.of("i > 40000", nullable(scan.schema))
    context = scan.slice_context(hoodie)
    slices = scan.all_slices()
    assert slices_with_rows(hoodie, slices, condition, context, None) == ()
    context = replace(context, **rule)
    (kept,) = slices_with_rows(hoodie, slices, condition, context, None)
    assert kept.log_files


def test_a_widened_column_is_found_by_older_rows(copied: Statistics) -> None:
    wider = SCHEMA.set(SCHEMA.get_field_index("i"), pa.field("i", pa.int64()))
    rows = rows_of([1]).cast(wider)
    copied.lake().write(rows, "upsert", options=QUIET)
    assert copied.lake().scan().schema.field("i").type == pa.int64()
    before, after = copied.compare("i = 203")
    assert after < before
    assert copied.compare("i = -400") == (PARTITIONS, 1)


def test_few_files_are_opened_without_a_look_at_statistics() -> None:
    table = Statistics()
    table.write(range(7), operation="insert")
    assert table.compare("i = 100") == (7, 7)


def test_statistics_that_cannot_be_read_are_done_without(
    copied: Statistics, caplog: pytest.LogCaptureFixture
) -> None:
    store = copied.location.open()
    for info in list(store.list(".hoodie/metadata/column_stats")):
        store.put(info.path, b"no log")
    with caplog.at_level(logging.WARNING, "tideline.hudi.read.file_pruning"):
        assert copied.compare("i = 203") == (PARTITIONS, PARTITIONS)
    assert "no file is left out by statistics" in caplog.text


def test_statistics_that_are_not_listed_are_not_read(copied: Statistics) -> None:
    copied.lake().hoodie_table.properties.update({METADATA_PARTITIONS: "files"})
    assert copied.compare("i = 203") == (PARTITIONS, PARTITIONS)


def test_a_table_as_of_a_time_is_read_by_them_as_well(copied: Statistics) -> None:
    then = copied.lake().latest_commit
    assert then is not None
    copied.write(range(40), 30_000)
    seen = OpenedFiles(copied.location.open())
    completed = then.completion_time
    rows = copied.lake(seen.store).to_arrow(["id"], "i = 201", as_of=completed)
    assert rows["id"].to_pylist() == ["k7-001"]
    assert len(seen.paths) <= 2
