"""Writes on Spark to tables with partial updates: what needs shuffles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.errors import InvalidDataError
from tideline.storage.location import StoreLocation
from tideline.testing.table_audit import merged_rows, open_fresh, unexplained_objects
from tideline.testing.written_table import WrittenTable

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("either_engine")]

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("n", pa.int64()),
        ("tags", pa.list_(pa.string())),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
Values = tuple[Any, ...]


def created(spark: SparkSession, folder: Path, table_type: str, **properties: str) -> WrittenTable:
    filled = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
    return WrittenTable.create(
        spark,
        folder,
        SCHEMA,
        properties={"hoodie.parquet.small.file.limit": "0", **filled, **properties},
        partition_by=["region"],
        ordering=["ts"],
        table_type=table_type,
        table_version=9,
    )


def row(key: str, region: str | None, ts: int, n: int | None, *tags: str) -> Values:
    return key, region, ts, n, list(tags) or None, False


def stored(table: WrittenTable) -> list[Values]:
    """The partition and the values of every row."""
    opened = open_fresh(StoreLocation.of(table.folder))
    assert unexplained_objects(opened) == []
    names = ["_hoodie_partition_path", "id", "region", "ts", "n", "tags"]
    found = merged_rows(opened).select(names).to_pylist()
    return sorted((tuple(item.values()) for item in found), key=str)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_rows_are_filled_up_by_the_batch_and_by_what_is_stored(
    table_type: str, spark: SparkSession, tmp_path: Path
) -> None:
    table = created(spark, tmp_path / "t", table_type, **{"hoodie.index.type": "SIMPLE"})
    table.write([row("a", "p", 5, 1, "x"), row("b", "p", 5, None), row("c", "p", 5, 1, "x")])
    table.write(
        [
            row("d", "p", 5, 1), row("d", "p", 7, None, "seven"), row("d", "p", 6, 2),
            row("a", "p", 6, None), row("a", "p", 7, None, "y"), row("b", "p", 4, 9),
            ("c", "p", 6, None, None, True), ("e", "p", 5, 1, None, False),
            ("e", "p", 6, None, None, True), row("e", "p", 7, None),
        ]
    )  # fmt: skip
    assert stored(table) == [
        ("p", "a", "p", 7, 1, ["y"]),
        ("p", "b", "p", 5, 9, None),
        ("p", "d", "p", 7, 1, ["seven"]),
        ("p", "e", "p", 7, None, None),
    ]


@pytest.mark.parametrize("operation", ["bulk_insert", "insert_overwrite"])
def test_rows_of_one_key_become_one_before_they_are_inserted(
    operation: str, spark: SparkSession, tmp_path: Path
) -> None:
    combined = {"hoodie.combine.before.insert": "true"}
    table = created(spark, tmp_path / "t", "COPY_ON_WRITE", **combined)
    given = [row("a", "p", 5, 1), row("a", "p", 7, None, "x"), row("a", "q", 6, None)]
    table.write([*given, row("a", "p", 6, 2)], operation)
    assert stored(table) == [("p", "a", "p", 7, 1, ["x"]), ("q", "a", "q", 6, None, None)]


@pytest.mark.slow_with("spark-COPY_ON_WRITE", "spark-MERGE_ON_READ")
@pytest.mark.parametrize(
    "table_type", ["COPY_ON_WRITE", pytest.param("MERGE_ON_READ", marks=pytest.mark.slow)]
)
def test_a_global_index_moves_rows_with_all_of_their_values(
    table_type: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Hudi gives the same rows, see the test with Hudi."""
    table = created(spark, tmp_path / "t", table_type, **{"hoodie.index.type": "GLOBAL_SIMPLE"})
    table.write([row(key, "p", 5, 1, key) for key in "abdfg"] + [row("c", "p", 5, None, "c")])
    table.write([row("g", "p", 6, 2), row("f", "p", 4, 2)])
    table.write(
        [
            row("a", "q", 6, None, "moved"), row("b", None, 6, None, "no region"),
            row("c", "q", 4, 7, "older"), row("d", "q", 5, None),
            row("e", "p", 5, 1), row("e", "q", 6, None), row("g", "q", 7, None),
            ("f", "q", 6, None, None, True),
        ]
    )  # fmt: skip
    assert stored(table) == [
        ("p", "b", "p", 6, 1, ["no region"]),
        ("p", "c", "p", 5, 7, ["c"]),
        ("q", "a", "q", 6, 1, ["moved"]),
        ("q", "d", "q", 5, 1, ["d"]),
        ("q", "e", "q", 6, 1, None),
        ("q", "g", "q", 7, 2, ["g"]),
    ]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_row_that_stays_in_its_partition_is_filled_up_there(
    table_type: str, spark: SparkSession, tmp_path: Path
) -> None:
    stays = {
        "hoodie.index.type": "GLOBAL_SIMPLE",
        "hoodie.simple.index.update.partition.path": "false",
    }
    table = created(spark, tmp_path / "t", table_type, **stays)
    table.write([row("a", "p", 5, 1, "a"), row("b", "p", 5, 1, "b")])
    table.write([row("a", None, 6, None), row("b", "q", 6, None)])
    assert stored(table) == [("p", "a", "p", 6, 1, ["a"]), ("p", "b", "q", 6, 1, ["b"])]


def test_by_commit_time_even_an_ordering_value_is_filled_up(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As in Hudi. By event time a row without one is refused."""
    by_commit_time = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
    table = created(spark, tmp_path / "t", "COPY_ON_WRITE", **by_commit_time)
    table.write([row("a", "p", 5, 1)])
    lacks = [("a", "p", None, 2, None, False), row("b", "p", 9, 1), row("b", "p", 8, None)]
    table.write(lacks)
    assert stored(table) == [("p", "a", "p", 5, 2, None), ("p", "b", "p", 8, 1, None)]
    by_event_time = created(spark, tmp_path / "e", "COPY_ON_WRITE")
    with pytest.raises(InvalidDataError, match="null ordering value"):
        by_event_time.write(lacks)
