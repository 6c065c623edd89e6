"""Partitions are left out by one look at each, where their rows are made of the reader's files."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tideline.hudi.metadata_table.column_row import ColumnRow, rows_of
from tideline.hudi.metadata_table.column_stats import rows_of_files
from tideline.hudi.metadata_table.file_ranges import ranges_of_files
from tideline.hudi.metadata_table.partition_stats import FILES_COUNTED
from tideline.hudi.read import file_pruning, partition_pruning
from tideline.hudi.read.arrow_scan import ArrowScan
from tideline.hudi.read.snapshot import plan_snapshot
from tideline.hudi.table.table_config import COLUMN_STATS, METADATA_PARTITIONS, TableType
from tideline.hudi.timeline.column_range import ValueKind
from tideline.index_lookups import lookups_so_far
from tideline.testing.altered_schema import alter, rename
from tideline.testing.reads_by_statistics import (
    compare_reads,
    rewritten_rows,
    seen_partitions,
)
from tideline.testing.small_table import ONCE, QUIET
from tideline.testing.table_of_statistics import TableOfStatistics

SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("n", pa.int64()), ("s", pa.string())]
)
PARTITIONS, FILES = 6, 3
TYPES = [TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ]


class Parts(TableOfStatistics):
    """A table of several files in each partition, whose values are near each other."""

    def __init__(self, table_type: TableType = TableType.COPY_ON_WRITE, version: int = 9) -> None:
        definition = "V2" if version > 8 else "V1"
        super().__init__(SCHEMA, ["n", "s"], table_type, version, definition)
        for file in range(FILES):
            self.write(range(file * 12, file * 12 + 12), operation="bulk_insert")

    def write(self, keys: Iterable[int], v: int = 0, operation: str = "upsert") -> None:
        rows = [
            {
                "id": f"k{key:03}",
                "part": f"p{key % PARTITIONS}",
                "n": None if key % 11 == 5 else key % PARTITIONS * 1000 + key + v,
                "s": f"{key % PARTITIONS}{('a', chr(0xFF21), chr(0x1F600))[key % 3]}{v}",
            }
            for key in keys
        ]
        self.lake().write(pa.Table.from_pylist(rows, SCHEMA), operation, options=QUIET)

    def ruled_out(self, condition: Any) -> int:
        """How many partitions are, for the same rows as without statistics."""
        with seen_partitions() as gone:
            compare_reads(self.read, condition)
        return len(gone)


@contextmanager
def rewritten_partitions(rewritten: Callable[[ColumnRow], ColumnRow | None]) -> Iterator[None]:
    """Within, reads find these rows of partitions instead of those that are stored."""

    def found(records: Any) -> dict[str, ColumnRow]:
        rows = rows_of(records)
        return {key: new for key, row in rows.items() if (new := rewritten(row)) is not None}

    with mock.patch.object(partition_pruning, "rows_of", found):
        yield


@pytest.fixture(params=[(kind, version) for kind in TYPES for version in (8, 9)], ids=str)
def parts(request: pytest.FixtureRequest) -> Parts:
    return Parts(*request.param)


def test_partitions_are_left_out_by_their_rows_alone(parts: Parts) -> None:
    """No row of a file is looked up of those that are gone."""
    asked: set[str] = set()

    def looked(table: Any, columns: Any, paths: Any) -> Any:
        asked.update(paths)
        return ranges_of_files(table, columns, paths)

    with mock.patch.object(file_pruning, "ranges_of_files", looked):
        for condition in ("n >= 3000 and n < 4000", "s > '3' and s < '4'"):
            assert parts.ruled_out(condition) == PARTITIONS - 1, condition
    assert asked == set(), "of a single partition there are few files"
    assert parts.ruled_out("n = 3003") == PARTITIONS - 1
    assert parts.ruled_out("n is null") < PARTITIONS
    assert parts.ruled_out("part = 'p3' and n = 3003") == 0, "its path has said it"
    assert parts.ruled_out("n = 3003 or s = '4\uff210'") == PARTITIONS - 2


def test_updates_deletes_and_services_keep_rows_that_count(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Clustering leaves one file in each.
    monkeypatch.setattr(partition_pruning, "FILES_PER_PARTITION", 0)
    monkeypatch.setattr(file_pruning, "FILES_LOOKED_UP", 1)
    parts.write([3, 9], 50_000)
    parts.write([4], operation="delete")
    assert parts.ruled_out("n > 50000") == PARTITIONS - 1
    assert parts.ruled_out("n >= 4000 and n < 5000") == PARTITIONS - 2, "and p3 has wider bounds"
    for service in ("compaction", "clustering", "cleaning"):
        parts.lake().run(service, options=ONCE)
        assert parts.ruled_out("n > 50000") == PARTITIONS - 1, service
    parts.lake().delete_partitions("p3")
    assert parts.ruled_out("n > 50000") == PARTITIONS - 1
    parts.write([3], 70_000)
    assert parts.ruled_out("n > 70000") <= PARTITIONS - 1
    assert parts.read("n > 70000")[0] == ["k003"]


def test_random_conditions_find_rows_as_without_statistics(parts: Parts) -> None:
    chosen, gone = random.Random(20261128), 0
    for _ in range(3):
        for _ in range(8):
            bound = chosen.randrange(PARTITIONS * 1000)
            text = f"{chosen.randrange(PARTITIONS)}{chosen.choice('a' + chr(0xFF21))}0"
            column, other = pc.field("n"), pc.field("s")
            condition = chosen.choice(
                [column == bound, column > bound, column < bound, column.is_null(), other > text]
            )
            if chosen.random() < 0.3:
                more = chosen.choice([condition | (other == text), condition & ~(other < text)])
                condition = more
            gone += parts.ruled_out(condition)
        parts.write(chosen.sample(range(40), 4), chosen.choice([1, 30_000]))
        parts.write([chosen.randrange(30)], operation="delete")
    assert gone


def test_rows_that_are_made_of_other_files_rule_out_nothing() -> None:
    """As after a commit of Hudi's: it writes rows, and none that names their files."""
    parts = Parts()
    table = parts.lake().hoodie_table
    scan = plan_snapshot(table)
    parts.write([3], 50_000)
    with seen_partitions() as gone:
        ArrowScan.of(table, scan, ["id"], pc.field("n") == -1).to_reader().read_all()
    assert gone == {f"p{number}" for number in range(PARTITIONS) if number != 3}, "p3 has moved on"

    def without(row: ColumnRow) -> ColumnRow | None:
        return None if row.column == FILES_COUNTED and row.file in ("p1", "p2") else row

    def narrow(row: ColumnRow) -> ColumnRow | None:
        found = replace(row.range, least=-9, greatest=-9)
        return replace(row, range=found) if row.range.type.kind is ValueKind.LONG else without(row)

    with rewritten_partitions(without):
        assert parts.ruled_out("n = -1") == PARTITIONS - 2
    with rewritten_partitions(narrow):
        assert parts.ruled_out("n = -1") == PARTITIONS - 2
        assert parts.read("n = 1001")[0] == ["k001"]
    answered, passed_over = lookups_so_far()
    with rewritten_partitions(lambda row: None if row.column == FILES_COUNTED else row):
        assert parts.ruled_out("n = 3003") == 0
    assert lookups_so_far() == (answered + 1, passed_over + 1), "files were looked at instead"


@pytest.mark.parametrize("said", [5, "", "{", "[1]", '"n"', None])
def test_a_row_of_another_form_rules_out_nothing(said: Any) -> None:
    parts = Parts()

    def other(row: ColumnRow) -> ColumnRow:
        found = replace(row.range, greatest=said)
        return replace(row, range=found) if row.column == FILES_COUNTED else row

    with rewritten_partitions(other):
        assert parts.ruled_out("n = 3003") == 0


@pytest.mark.parametrize(
    ("column", "bounds", "condition"),
    [
        # As Hudi has them of a footer that says nothing of the column, or of some row groups.
        ("n", {"least": 0, "greatest": 0, "nulls": 2}, "n = 3003"),
        ("s", {"least": None, "greatest": None, "nulls": 2}, "s > '3'"),
        ("s", {"least": "0", "greatest": "0", "plain_bytes": 5000}, "s > '3'"),
        ("s", {"least": "0", "greatest": "0\uff21", "plain_bytes": 5}, "s > '3'"),
        ("n", {"least": 9, "greatest": 1}, "n = 3003"),
    ],
)
def test_bounds_of_files_that_are_not_certain_are_not_made_those_of_a_partition(
    column: str, bounds: dict[str, Any], condition: str
) -> None:
    parts = Parts()
    stored = "tideline.hudi.metadata_table.column_stats.rows_of_files"

    def lying(*given: Any) -> Any:
        rows = rows_of_files(*given)
        return {
            path: {
                name: replace(row, range=replace(row.range, **bounds), is_tight=False)
                if name == column
                else row
                for name, row in of_file.items()
            }
            for path, of_file in rows.items()
        }

    with mock.patch(stored, lying):
        parts.write([0], 1)
    # Others are not touched: their rows were measured.
    with seen_partitions() as gone:
        parts.read(condition.replace("3003", "-1").replace("'3'", "'9'"))
    assert gone == {f"p{number}" for number in range(1, PARTITIONS)}
    other = "s > '9'" if column == "n" else "n = -1"
    assert parts.ruled_out(other) == PARTITIONS, "the other column is certain"


def test_a_column_that_had_another_name_rules_out_nothing() -> None:
    parts = Parts()
    alter(parts.lake().hoodie_table, rename("n", "m"))
    assert parts.ruled_out("m = 3003") == 0
    assert parts.ruled_out("s > '3' and s < '4'") == PARTITIONS - 1


def test_partitions_alone_leave_files_out_where_these_have_no_rows() -> None:
    parts = Parts()
    with rewritten_rows(lambda _: None):
        assert parts.read("n >= 3000 and n < 4000")[1] == FILES
    listed = list(parts.lake().hoodie_table.config.metadata_partitions)
    listed.remove(COLUMN_STATS)
    parts.lake().hoodie_table.properties.update({METADATA_PARTITIONS: ",".join(listed)})
    assert parts.read("n >= 3000 and n < 4000")[1] == FILES


def test_statistics_of_partitions_that_cannot_be_read_rule_out_nothing() -> None:
    parts = Parts()
    store = parts.location.open()
    for info in store.list_directory(".hoodie/metadata/partition_stats").objects:
        store.put(info.path, b"none")
    _, passed_over = lookups_so_far()
    assert parts.ruled_out("n = 3003") == 0
    assert lookups_so_far()[1] == passed_over + 1
    assert parts.read("n = 3003")[1] == 1, "by files"
