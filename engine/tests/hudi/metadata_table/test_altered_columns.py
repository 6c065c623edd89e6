"""Statistics and secondary indexes of columns that Hudi's schema on read alters: kept where files
still have the columns by their names, dropped where these are other columns now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from tideline.hudi.check.run import check_table
from tideline.hudi.metadata_table.index_definitions import define, read_definitions
from tideline.hudi.metadata_table.indexed_columns import META_COLUMNS
from tideline.hudi.metadata_table.partition import CannotFollow, StoredSizes, WholeTable
from tideline.hudi.metadata_table.registry import kept_partitions
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.internal_schema import InternalField
from tideline.hudi.table.table_config import (
    COLUMN_STATS,
    METADATA_PARTITIONS,
    PARTITION_STATS,
    TableType,
)
from tideline.testing.altered_schema import Change, add, alter, drop, rename, retype
from tideline.testing.kept_statistics import (
    begin_record_index,
    begin_secondary_index,
    statistics_of_files,
    statistics_of_partitions,
)
from tideline.testing.table_of_statistics import TableOfStatistics

SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("n", pa.int64()), ("m", pa.int64())]
)
STATISTICS = {COLUMN_STATS, PARTITION_STATS}
INDEX = "secondary_index_n"
QUIET = {"hoodie.parquet.small.file.limit": "0", "hoodie.clean.automatic": "false"}

Fields = tuple[InternalField, ...]


def swap(fields: Fields) -> Fields:
    for step in (rename("n", "other"), rename("m", "n"), rename("other", "m")):
        fields = step(fields)
    return fields


def again(fields: Fields) -> Fields:
    """`n` without its values."""
    return add("n", 99)(drop("n")(fields))


ENDS: dict[str, Change] = {
    "renamed": rename("n", "x"),
    "added again": again,
    "swapped": swap,
    "text": retype("n", "string"),
}
KEPT: dict[str, Change] = {
    "added": add("late", 99),
    "dropped": drop("n"),
    "wider": retype("n", "double"),
}


@pytest.fixture(params=TableType, ids=str)
def table(request: pytest.FixtureRequest) -> TableOfStatistics:
    """Two partitions of two rows."""
    made = TableOfStatistics(SCHEMA, ("id", "part", "n", "m"), request.param, 9)
    begin_record_index(made.lake().hoodie_table)
    begin_secondary_index(made.lake().hoodie_table, "n")
    write(made, "insert", *(row(made, number) for number in range(4)))
    return made


def row(table: TableOfStatistics, number: int) -> dict[str, Any]:
    """With texts where columns are of text."""
    lake = table.lake()
    schema = lake.hoodie_table.schemas.newest(lake.timeline()) or SCHEMA
    values = {item.name: pa.scalar(number).cast(item.type).as_py() for item in schema
              if item.name not in ("id", "part")}  # fmt: skip
    return {"id": f"k{number}", "part": f"p{number % 2}", **values}


def write(table: TableOfStatistics, operation: str, *rows: dict[str, Any]) -> Any:
    lake = table.lake()
    schema = lake.hoodie_table.schemas.newest(lake.timeline()) or SCHEMA
    return lake.write(pa.Table.from_pylist(list(rows), schema=schema), operation, options=QUIET)


def alter_as_hudi(table: TableOfStatistics, change: Change) -> None:
    """With the commit of an ALTER Hudi lists the columns of now, whatever files have rows of."""
    hoodie = table.lake().hoodie_table
    alter(hoodie, change)
    list_columns(hoodie, read_definitions(hoodie)[COLUMN_STATS])


def list_columns(hoodie: HoodieTable, defined: Mapping[str, Any]) -> None:
    """The columns of now in the definition of statistics."""
    columns = hoodie.schemas.newest(hoodie.timeline())
    assert columns is not None
    define(hoodie, COLUMN_STATS, {**defined, "sourceFields": [*META_COLUMNS, *columns.names]})


def listed(table: TableOfStatistics) -> set[str]:
    return {*table.lake().hoodie_table.config.metadata_partitions}


def list_again(table: TableOfStatistics, defined: Mapping[str, Any]) -> None:
    """As if Hudi had made statistics of the files of now."""
    hoodie = table.lake().hoodie_table
    list_columns(hoodie, defined)
    listing = ",".join(sorted({*listed(table), *STATISTICS}))
    hoodie.properties.update({METADATA_PARTITIONS: listing})


def why_dropped(table: TableOfStatistics, name: str) -> str:
    """What `adopt` says before anything is written; nothing of what is kept."""
    hoodie = table.lake().hoodie_table
    whole = WholeTable(hoodie, hoodie.timeline())
    found = kept_partitions(hoodie)[name].upkeep(whole, StoredSizes())
    return found.reason if isinstance(found, CannotFollow) else ""


@pytest.mark.parametrize("change", ENDS.values(), ids=ENDS)
def test_statistics_end_where_live_files_have_a_column_in_another_way(
    table: TableOfStatistics, change: Change
) -> None:
    alter_as_hudi(table, change)
    defined = read_definitions(table.lake().hoodie_table)[COLUMN_STATS]
    for name in STATISTICS:
        assert "by Hudi's schema on read since p" in why_dropped(table, name)
    report = write(table, "upsert", row(table, 1))
    assert listed(table).isdisjoint(STATISTICS)
    assert any("by Hudi's schema on read since p" in note for note in report.notes)
    # Once no such file is live they are true.
    write(table, "insert_overwrite_table", *(row(table, number) for number in range(4)))
    list_again(table, defined)
    assert [why_dropped(table, name) for name in STATISTICS] == ["", ""]


@pytest.mark.parametrize("change", KEPT.values(), ids=KEPT)
def test_statistics_stay_where_bounds_are_those_of_the_columns(
    table: TableOfStatistics, change: Change
) -> None:
    alter(table.lake().hoodie_table, change)
    assert [why_dropped(table, name) for name in STATISTICS] == ["", ""]
    write(table, "upsert", row(table, 1))
    assert listed(table) >= STATISTICS


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [(swap, False), (again, True), (rename("m", "x"), True)],
    ids=["swapped", "added again", "another"],
)
def test_an_index_of_values_ends_where_another_column_had_its_name(
    table: TableOfStatistics, change: Change, is_kept: bool
) -> None:
    alter(table.lake().hoodie_table, change)
    assert ("another column than now was called n" in why_dropped(table, INDEX)) != is_kept
    write(table, "upsert", row(table, 1))
    assert (INDEX in listed(table)) == is_kept


@pytest.mark.parametrize("change", [rename("n", "x"), drop("n")], ids=["renamed", "dropped"])
def test_an_index_of_a_column_that_is_gone_ends_and_says_so(
    table: TableOfStatistics, change: Change
) -> None:
    alter(table.lake().hoodie_table, change)
    assert why_dropped(table, INDEX).startswith("the table has no column n: where it was renamed")
    report = write(table, "upsert", row(table, 1))
    assert INDEX not in listed(table)
    assert any("the table has no column n" in note for note in report.notes)


def test_a_column_that_another_writer_adds_gets_rows_of_the_older_files(
    table: TableOfStatistics,
) -> None:
    """Those of the partition that is written: Hudi lists it, and has rows of its files alone."""
    write(table, "insert", row(table, 5), row(table, 7))
    alter_as_hudi(table, add("late", 99))
    write(table, "upsert", row(table, 1))
    hoodie = table.lake().hoodie_table
    assert listed(table) >= STATISTICS
    found = statistics_of_files(hoodie)
    view = hoodie.files.view(hoodie.timeline())
    slices = view.latest_slices("p1")
    files = [file for file_slice in slices for file in file_slice.row_files]
    assert len(files) > 1
    for file in files:
        assert found[file.name, "late"].range.values == found[file.name, "n"].range.values
    whole = statistics_of_partitions(hoodie)["p1", "late"].range
    assert (whole.least, whole.greatest) == (1, 1)
    # Without the column a partition has its rows as they were.
    assert ("p0", "late") not in statistics_of_partitions(hoodie)
    write(table, "upsert", row(table, 0))
    assert statistics_of_partitions(hoodie)["p0", "late"].range.greatest == 0
    assert not [item for item in check_table(hoodie) if "has statistics, but none" in item.message]


def test_a_column_that_is_listed_later_and_has_values_in_older_files_ends_partitions() -> None:
    """Other partitions may have values of it, and no row says so."""
    table = TableOfStatistics(SCHEMA, ("id", "part", "m"), TableType.COPY_ON_WRITE, 9)
    write(table, "insert", *(row(table, number) for number in range(8)))
    hoodie = table.lake().hoodie_table
    list_columns(hoodie, read_definitions(hoodie)[COLUMN_STATS])
    report = write(table, "insert", row(table, 9))
    assert PARTITION_STATS not in listed(table)
    assert any("has no statistics of n" in note for note in report.notes)
