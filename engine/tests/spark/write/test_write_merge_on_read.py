"""Writes of merge-on-read tables on Spark: what is appended where, by operation and index."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.hudi.timeline.instant import Action
from tideline.storage.location import StoreLocation
from tideline.testing.table_audit import open_fresh, read_rows, unexplained_objects
from tideline.testing.written_table import WrittenTable

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("either_engine")]

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("v", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
APPENDS = {"hoodie.parquet.small.file.limit": "0"}
Create = Callable[..., WrittenTable]


@pytest.fixture
def create(spark: SparkSession, tmp_path: Path) -> Create:
    def made(index: str = "SIMPLE", **settings: Any) -> WrittenTable:
        properties = {"hoodie.index.type": index, **APPENDS, **settings.pop("properties", {})}
        settings = {"partition_by": ["region"], "ordering": ["ts"], **settings}
        return WrittenTable.create(
            spark,
            tmp_path / "t",
            SCHEMA,
            properties=properties,
            table_type="MERGE_ON_READ",
            **settings,
        )

    return made


def rows(keys: str, region: str, ts: int, v: str, deleted: bool = False) -> list[tuple[Any, ...]]:
    return [(key, region, ts, v, deleted) for key in keys]


def merged(table: WrittenTable, *columns: str) -> list[tuple[Any, ...]]:
    """The rows a query would see, doubled ones included."""
    opened = open_fresh(StoreLocation.of(str(table.folder)))
    assert unexplained_objects(opened) == []
    found = [tuple(row[name] for name in columns) for row in read_rows(opened)]
    return sorted(found, key=lambda row: tuple(map(str, row)))


def kinds(table: WrittenTable) -> set[str]:
    """Of the files of the newest commit whether they are base files or logs."""
    return {"base" if stat["path"].endswith(".parquet") else "log" for stat in table.stats()}


@pytest.mark.slow_with("spark-BLOOM-parquet")
@pytest.mark.parametrize(
    ("index", "log_format"),
    [
        ("SIMPLE", "avro"),
        ("BLOOM", "parquet"),
        pytest.param("SIMPLE", "parquet", marks=pytest.mark.slow),
        pytest.param("BLOOM", "avro", marks=pytest.mark.slow),
    ],
)
def test_updates_are_appended_and_new_keys_are_not(
    index: str, log_format: str, create: Create
) -> None:
    properties = {
        "hoodie.logfile.data.block.format": log_format,
        "hoodie.compact.inline": "false",
    }
    table = create(index, properties=properties)
    table.write(rows("abcd", "north", 1, "1") + rows("c", "south", 1, "1"), "bulk_insert")
    report = table.write(rows("bx", "north", 2, "2") + rows("ad", "south", 2, "2"))
    assert kinds(table) == {"base", "log"}
    assert (report.rows_updated, report.rows_inserted) == (1, 3)
    table.write(rows("b", "north", 3, "3") + rows("c", "north", 0, "late"))
    assert kinds(table) == {"log"}
    report = table.write(rows("dz", "north", 4, "4", deleted=True))
    assert report.rows_deleted >= 1
    report = table.write(rows("x", "north", 0, "") + rows("q", "south", 0, ""), "delete")
    assert (kinds(table), report.rows_deleted) == ({"log"}, 1)
    assert merged(table, "region", "id", "v") == [
        ("north", "a", "1"),
        ("north", "b", "3"),
        ("north", "c", "1"),
        ("south", "a", "2"),
        ("south", "c", "1"),
        ("south", "d", "2"),
    ]
    actions = {item.action for item in table.lake.timeline()}
    assert actions == {Action.DELTACOMMIT}


@pytest.mark.slow_with("spark")
def test_inserts_fill_a_small_file_group_without_logs_by_rewriting_it(create: Create) -> None:
    table = create(properties={"hoodie.parquet.small.file.limit": "1000000"})
    table.write(rows("ab", "north", 1, "1"))
    table.write(rows("ac", "north", 2, "2"))
    (stat,) = table.stats()
    assert (stat.get("logFiles"), stat["numInserts"], stat["numUpdateWrites"]) == (None, 1, 1)
    table.write(rows("b", "north", 3, "3"))
    assert kinds(table) == {"log"}, "nothing to insert, nothing to rewrite"
    table.write(rows("cd", "north", 4, "4"))
    assert kinds(table) == {"base", "log"}, "a file group with logs takes no inserts"
    assert merged(table, "id", "v") == [("a", "2"), ("b", "3"), ("c", "4"), ("d", "4")]


@pytest.mark.slow_with("spark-GLOBAL_SIMPLE")
@pytest.mark.parametrize(
    "index", ["GLOBAL_SIMPLE", pytest.param("GLOBAL_BLOOM", marks=pytest.mark.slow)]
)
def test_a_row_that_moves_is_deleted_in_the_log_of_its_old_group(
    index: str, create: Create
) -> None:
    table = create(index)
    table.write(rows("abcd", "north", 5, "1"), "bulk_insert")
    table.write(rows("d", "north", 9, "later"))
    table.write(
        [
            ("a", "south", 6, "moved", False),
            ("b", "south", 4, "lost", False),
            ("d", "south", 7, "lost to the log", False),
        ]
    )
    assert merged(table, "id", "region", "v") == [
        ("a", "south", "moved"),
        ("b", "north", "1"),
        ("c", "north", "1"),
        ("d", "north", "later"),
    ]
    # It is stored in both places now, and only the log says where it still is.
    table.write([("a", "south", 7, "again", False), ("c", "west", 7, "moved", False)])
    table.write([("a", "north", 8, "back", False)])
    table.write([("c", "nowhere", 0, "", False)], "delete")
    table.write([("c", "south", 1, "new", False)])
    assert merged(table, "id", "region", "v") == [
        ("a", "north", "back"),
        ("b", "north", "1"),
        ("c", "south", "new"),
        ("d", "north", "later"),
    ]


@pytest.mark.slow_with("spark")
def test_a_bucket_begins_with_a_base_file_and_goes_on_in_logs(create: Create) -> None:
    table = create("BUCKET", properties={"hoodie.bucket.index.num.buckets": "2"})
    table.write(rows("abcdef", "north", 1, "1"))
    assert kinds(table) == {"base"}
    table.write(rows("abxyz", "north", 2, "2"), "insert")
    assert kinds(table) == {"log"}
    table.write(rows("ax", "north", 3, "3"), "delete")
    assert kinds(table) == {"log"}
    table.write(rows("y", "north", 3, "3"))
    assert merged(table, "id", "v") == [
        ("b", "2"),
        ("c", "1"),
        ("d", "1"),
        ("e", "1"),
        ("f", "1"),
        ("y", "3"),
        ("z", "2"),
    ]
    with_groups = table.lake.hoodie_table
    view = with_groups.files.view(with_groups.timeline())
    assert len(view.latest_slices("north")) == 2


@pytest.mark.slow_with("spark")
def test_an_update_of_some_columns_is_appended_as_whole_rows(create: Create) -> None:
    table = create()
    table.write(rows("abcd", "north", 5, "1"), "bulk_insert")
    table.write(rows("b", "north", 6, "2"))
    only = {"tideline.write.partial.update.columns": "ts"}
    table.write(
        rows("ab", "north", 7, "kept out")
        + rows("c", "north", 4, "loses")
        + rows("d", "north", 8, "", deleted=True),
        options=only,
    )
    assert kinds(table) == {"log"}
    assert merged(table, "id", "ts", "v") == [("a", 7, "1"), ("b", 7, "2"), ("c", 5, "1")]


@pytest.mark.slow_with("spark")
def test_overwrites_replace_file_groups_with_their_logs(create: Create) -> None:
    table = create()
    table.write(rows("ab", "north", 1, "1") + rows("ab", "south", 1, "1"), "bulk_insert")
    table.write(rows("a", "north", 2, "2") + rows("a", "south", 2, "2"))
    table.write(rows("c", "north", 3, "3"), "insert_overwrite")
    assert merged(table, "region", "id", "v") == [
        ("north", "c", "3"),
        ("south", "a", "2"),
        ("south", "b", "1"),
    ]
    table.write(rows("c", "north", 4, "4"))
    table.write(rows("x", "south", 0, ""), "delete_partition")
    assert merged(table, "region", "id", "v") == [("north", "c", "4")]
    table.write(rows("d", "west", 5, "5"), "insert_overwrite_table")
    assert merged(table, "region", "id", "v") == [("west", "d", "5")]


@pytest.mark.slow_with("spark")
def test_a_column_added_by_an_append_is_null_in_older_rows(create: Create) -> None:
    table = create()
    table.write(rows("ab", "north", 1, "1"), "bulk_insert")
    wider = table.frame(rows("a", "north", 2, "2")).selectExpr("*", "42 as extra")
    table.write(wider)
    table.write(table.frame(rows("b", "north", 0, "late")).selectExpr("*", "1 as extra"))
    assert merged(table, "id", "v", "extra") == [("a", "2", 42), ("b", "1", None)]


@pytest.mark.slow_with("spark")
def test_stored_duplicates_hide_no_new_key_in_a_log(create: Create) -> None:
    """The profile counts a doubled key twice, so a new one may look like no insert at all."""
    table = create()
    for version in ("1", "2"):
        table.write(rows("ab", "north", 1, version), "bulk_insert")
    table.write(rows("an", "north", 2, "new"))
    table.write(rows("n", "north", 3, "newer"))
    assert [row for row in merged(table, "id", "v") if row[0] == "n"] == [("n", "newer")]


@pytest.mark.slow_with("spark-SIMPLE", "spark-BLOOM")
@pytest.mark.parametrize("index", ["SIMPLE", pytest.param("BLOOM", marks=pytest.mark.slow)])
def test_a_key_that_a_log_deletes_is_where_it_was_inserted_again(
    index: str, create: Create
) -> None:
    """Its old base file still has it. Appended there as well, the row would be twice."""
    table = create(index)
    table.write(rows("abc", "north", 1, "1"), "bulk_insert")
    table.write(rows("ab", "north", 0, ""), "delete")
    table.write(rows("a", "north", 1, "again"), "insert")
    report = table.write(rows("abcd", "north", 2, "2"))
    assert merged(table, "id", "v") == [("a", "2"), ("b", "2"), ("c", "2"), ("d", "2")]
    # What only a log deleted goes back to where Hudi's index finds it.
    assert (report.rows_updated, report.rows_inserted) == (3, 1)
    table.write(rows("ac", "north", 3, "", deleted=True))
    dropping = {"hoodie.datasource.insert.dup.policy": "drop"}
    table.write(rows("abc", "north", 4, "4"), "insert", options=dropping)
    assert merged(table, "id", "v") == [("a", "4"), ("b", "2"), ("c", "4"), ("d", "2")]
