"""Every write operation on Spark, against a model in plain Python and a reader of its own."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tideline.errors import ConfigError, InvalidDataError
from tideline.testing.plain_reader import completed_commits, live_files, newest_commit, stored_rows
from tideline.testing.table_model import TableModel
from tideline.testing.written_table import WrittenTable

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("either_engine")]

SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string()), ("ts", pa.int64()),
                    ("v", pa.string())])  # fmt: skip
REGIONS = ("north", "south/east", "åäö 😀")


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> WrittenTable:
    return WrittenTable.create(
        spark, tmp_path / "t", SCHEMA, partition_by=["region"], ordering=["ts"]
    )


def rows(numbers: range, version: int) -> list[tuple[Any, ...]]:
    return [
        (number, REGIONS[number % 3], version, f"v{version}" if number % 5 else None)
        for number in numbers
    ]


def arrow(table: WrittenTable, values: list[tuple[Any, ...]]) -> pa.Table:
    named = [dict(zip(SCHEMA.names, value, strict=True)) for value in values]
    return pa.Table.from_pylist(named, schema=table.schema)


def new_model() -> TableModel:
    return TableModel(record_key=["id"], partition_by=["region"], ordering="ts")


def check(table: WrittenTable, model: TableModel) -> None:
    """The plain reader and the snapshot both see the model's rows."""
    assert model.canonical(pa.Table.from_pylist(stored_rows(table.folder))) == model.rows()
    assert model.canonical(table.lake.snapshot(table.spark).toArrow()) == model.rows()


def test_a_history_of_every_operation_reads_as_the_model_says(table: WrittenTable) -> None:
    model = new_model()
    steps = [
        ("insert", rows(range(12), 1)),
        ("upsert", rows(range(6, 18), 2)),
        ("delete", rows(range(0, 40, 4), 2)),
        ("bulk_insert", rows(range(20, 26), 3)),
        ("insert_overwrite", [(n, "north", 5, "o") for n in (50, 51)]),
        ("delete_partition", [(0, "south/east", 0, "")]),
        ("insert_overwrite_table", rows(range(60, 64), 7)),
        ("upsert", rows(range(62, 66), 8)),
    ]
    for operation, values in steps:
        batch = arrow(table, values)
        report = table.write(batch, operation)
        model.apply(operation, batch)
        assert report.operation == operation
    check(table, model)
    types = [metadata["operationType"] for metadata in completed_commits(table.folder).values()]
    assert types == [operation.upper() for operation, _ in steps]
    actions = [path.suffix for path in (table.folder / ".hoodie/timeline").glob("2*.*commit")]
    assert actions.count(".replacecommit") == 3
    stored = stored_rows(table.folder)
    assert {row["_hoodie_partition_path"] for row in stored} == set(REGIONS)
    assert [row["_hoodie_record_key"] for row in stored] == [str(row["id"]) for row in stored]


def test_upsert_replaces_rows_and_keeps_the_meta_columns_of_the_rest(table: WrittenTable) -> None:
    first = table.write(rows(range(6), 1), "insert")
    assert (first.rows_inserted, first.rows_updated, first.files_written) == (6, 0, 3)
    second = table.write([(0, "north", 2, "new"), (9, "north", 2, "added")])
    assert (second.rows_inserted, second.rows_updated, second.rows_deleted) == (1, 1, 0)
    assert (second.files_written, second.rows_written) == (1, 3)
    times = {row["id"]: row["_hoodie_commit_time"] for row in stored_rows(table.folder)}
    assert times == dict.fromkeys(range(1, 6), first.instant) | dict.fromkeys(
        (0, 9), second.instant
    )
    names = {path.name for path in live_files(table.folder)}
    assert {row["_hoodie_file_name"] for row in stored_rows(table.folder)} == names
    keys = [row["_hoodie_commit_seqno"] for row in stored_rows(table.folder)]
    assert len(set(keys)) == len(keys) == 7


@pytest.mark.slow_with("spark")
def test_insert_keeps_duplicates_and_upsert_updates_every_copy(table: WrittenTable) -> None:
    table.write([(1, "north", 1, "a"), (1, "north", 2, "b"), (2, "north", 1, "x")], "insert")
    table.write([(1, "north", 3, "c")], "insert")
    assert table.rows("id", "v") == [(1, "a"), (1, "b"), (1, "c"), (2, "x")]
    # Small enough to be filled: the copies are in one file, and a second file has another.
    table.write([(1, "north", 4, "d")], "bulk_insert")
    assert len(live_files(table.folder)) == 2
    report = table.write([(1, "north", 5, "e"), (3, "north", 1, "y")])
    assert table.rows("id", "v") == [(1, "e")] * 4 + [(2, "x"), (3, "y")]
    assert (report.rows_updated, report.rows_inserted) == (4, 1)
    report = table.write([(1, "north", 0, "")], "delete")
    assert table.rows("id", "v") == [(2, "x"), (3, "y")]
    assert report.rows_deleted == 4


@pytest.mark.slow_with("spark")
def test_inserts_drop_duplicates_when_asked_to(table: WrittenTable) -> None:
    batch = [(1, "north", 2, "b"), (1, "north", 1, "a"), (2, "north", 1, "x")]
    combine = {"hoodie.combine.before.insert": "true"}
    table.write(batch, "insert", combine)
    assert table.rows("id", "v") == [(1, "b"), (2, "x")]
    table.write(batch, "bulk_insert", combine)
    assert table.rows("id", "v") == [(1, "b"), (1, "b"), (2, "x"), (2, "x")]
    table.write(batch, "insert_overwrite_table", combine)
    assert table.rows("id", "v") == [(1, "b"), (2, "x")]
    # Merging inserts: a small file takes them as updates of what it holds.
    table.write(
        [(1, "north", 9, "c")], "insert", {"hoodie.merge.allow.duplicate.on.inserts": "false"}
    )
    assert table.rows("id", "v") == [(1, "c"), (2, "x")]


def test_bulk_insert_writes_new_files_in_the_order_asked_for(table: WrittenTable) -> None:
    frame = table.frame(rows(range(40, 3, -1), 2)).repartition(2)
    kept: set[Path] = set()
    for mode in ("NONE", "PARTITION_SORT", "GLOBAL_SORT"):
        report = table.write(frame, "bulk_insert", {"hoodie.bulkinsert.sort.mode": mode})
        assert report.rows_inserted == 37
        files = set(live_files(table.folder))
        assert kept < files
        new = [pq.read_table(path).to_pylist() for path in files - kept]
        keys = [[row["_hoodie_record_key"] for row in found] for found in new]
        assert sorted(key for found in keys for key in found) == sorted(map(str, range(4, 41)))
        assert all(found == sorted(found) for found in keys) is (mode != "NONE")
        spans = sorted(
            (found[0]["region"], min(k), max(k)) for found, k in zip(new, keys, strict=True)
        )
        is_cut = all(pair[2] < next[1] for pair, next in pairwise(spans) if pair[0] == next[0])
        assert is_cut or mode != "GLOBAL_SORT"
        assert all(stat["prevCommit"] == "null" for stat in table.stats())
        kept = files


@pytest.mark.slow_with("spark")
def test_delete_needs_nothing_but_key_and_partition(
    table: WrittenTable, spark: SparkSession
) -> None:
    table.write(rows(range(9), 5), "insert")
    # The key as another type, no ordering column, a stranger that clashes with the table's type.
    frame = spark.createDataFrame(
        [("0", "north", 1), ("4", "south/east", 1), ("5", "north", 1), ("77", "new", 1)],
        "id string, region string, v int",
    )
    report = table.write(frame, "delete")
    assert report.rows_deleted == 2
    assert [row[0] for row in table.rows("id")] == [1, 2, 3, 5, 6, 7, 8]
    assert newest_commit(table.folder)["partitionToWriteStats"].keys() == set(REGIONS[:2])
    assert not (table.folder / "new").exists()


@pytest.mark.slow_with("spark")
def test_deletes_of_unknown_keys_leave_an_empty_commit(table: WrittenTable) -> None:
    table.write(rows(range(3), 1), "insert")
    files = live_files(table.folder)
    report = table.write([(99, "north", 1, ""), (0, "nowhere", 1, "")], "delete")
    assert (report.rows_deleted, report.files_written) == (0, 0)
    metadata = newest_commit(table.folder)
    assert (metadata["operationType"], metadata["partitionToWriteStats"]) == ("DELETE", {})
    assert live_files(table.folder) == files
    # A file group may lose all its rows, and then takes rows again.
    assert table.write(rows(range(3), 1), "delete").rows_deleted == 3
    assert table.rows() == []
    table.write(rows(range(2), 1))
    assert table.rows("id") == [(0,), (1,)]
    assert len(live_files(table.folder)) == 3


@pytest.mark.slow_with("spark")
def test_insert_overwrite_replaces_the_partitions_it_writes_to(table: WrittenTable) -> None:
    table.write(rows(range(6), 1), "insert")
    old = {stat["partitionPath"]: stat["fileId"] for stat in table.stats()}
    report = table.write([(7, "north", 1, "a"), (7, "north", 0, "b")], "insert_overwrite")
    assert report.file_groups_replaced == 1
    assert newest_commit(table.folder)["partitionToReplaceFileIds"] == {"north": [old["north"]]}
    assert table.rows("id", "v") == [(1, "v1"), (2, "v1"), (4, "v1"), (5, None), (7, "a"), (7, "b")]
    table.write([(8, "west", 1, "c")], "insert_overwrite_table")
    assert table.rows("id", "region") == [(8, "west")]
    replaced = newest_commit(table.folder)["partitionToReplaceFileIds"]
    assert replaced.keys() == set(REGIONS)
    table.write([], "insert_overwrite_table")
    assert table.rows() == []


@pytest.mark.slow_with("spark")
def test_delete_partition_takes_paths_or_the_rows_of_a_frame(table: WrittenTable) -> None:
    table.write(rows(range(6), 1), "insert")
    report = table.lake.delete_partitions([REGIONS[2]])
    assert (report.file_groups_replaced, report.files_written) == (1, 0)
    assert {row[0] for row in table.rows("region")} == set(REGIONS[:2])
    only_region = table.frame(rows(range(6), 1)).where("region = 'north'").select("region")
    table.write(only_region, "delete_partition")
    assert {row[0] for row in table.rows("region")} == {"south/east"}
    metadata = newest_commit(table.folder)
    assert metadata["operationType"] == "DELETE_PARTITION"
    assert metadata["partitionToWriteStats"] == {}
    table.write([(9, "north", 1, "again")])
    assert {row[0] for row in table.rows("region")} == {"north", "south/east"}
    with pytest.raises(InvalidDataError, match="1 partition to delete not found"):
        table.lake.delete_partitions(["north", "nowhere"])


@pytest.mark.slow_with("spark")
def test_a_table_without_partitions_keeps_its_files_at_the_root(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = WrittenTable.create(spark, tmp_path / "t", SCHEMA, record_key=["id", "region"])
    table.write(rows(range(4), 1), "insert")
    table.write([(0, "north", 0, "late"), (0, "south", 0, "other")])
    assert table.rows("id", "region", "v")[:2] == [(0, "north", "late"), (0, "south", "other")]
    keys = {row["_hoodie_record_key"] for row in stored_rows(table.folder)}
    assert {"id:0,region:north", "id:0,region:south", "id:1,region:south/east"} <= keys
    assert [path.parent for path in live_files(table.folder)] == [table.folder]
    table.write(table.frame([(0, "north", 0, "")]).select("region", "id"), "delete")
    assert table.rows("id", "region")[0] == (0, "south")
    with pytest.raises(ConfigError, match="no partitions to delete"):
        table.write(rows(range(1), 1), "delete_partition")
    table.write(rows(range(2), 3), "insert_overwrite")
    assert len(table.rows()) == 2


@pytest.mark.slow_with("spark")
def test_rows_of_one_batch_may_carry_their_deletes(spark: SparkSession, tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    table = WrittenTable.create(
        spark, tmp_path / "t", schema, partition_by=["region"], ordering=["ts"]
    )
    table.write([(n, "north", 5, "a", False) for n in range(4)], "insert")
    report = table.write(
        [
            (0, "north", 6, "gone", True),
            (1, "north", 4, "late delete", True),
            (2, "north", 6, "kept", None),
            (9, "north", 6, "unknown", True),
        ]
    )
    assert table.rows("id", "v") == [(1, "a"), (2, "kept"), (3, "a")]
    assert (report.rows_deleted, report.rows_updated) == (2, 1)
    # Without an ordering value a delete competes with nothing: it deletes.
    table.write([(1, "north", None, None, True)])
    assert table.rows("id") == [(2,), (3,)]
    frame = table.frame([(n, "south", 1, "a", n == 7) for n in (7, 8)])
    table.write(frame, "bulk_insert")
    assert table.rows("id") == [(2,), (3,), (8,)]


@pytest.mark.slow_with("spark-COPY_ON_WRITE", "spark-MERGE_ON_READ")
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_batch_with_deletes_adds_no_column_that_later_batches_would_lack(
    spark: SparkSession, tmp_path: Path, table_type: str
) -> None:
    table = WrittenTable.create(spark, tmp_path / "t", SCHEMA, table_type=table_type)
    table.write([(n, "north", 1, "a") for n in range(3)], "insert")
    flagged = table.frame([(n, "north", 2, "b") for n in range(2)])
    table.write(flagged.withColumn("_hoodie_is_deleted", F.col("id") == 0))
    table.write([(2, "north", 3, "c")])
    assert table.lake.snapshot(spark).columns[5:] == SCHEMA.names
    found = table.lake.snapshot(spark).select("id", "v").collect()
    assert sorted(map(tuple, found)) == [(1, "b"), (2, "c")]


@pytest.mark.slow_with("spark")
def test_a_table_that_stores_the_flag_takes_batches_without_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    table = WrittenTable.create(spark, tmp_path / "t", schema)
    table.write([(1, "north", 1, "a", None)], "insert")
    WrittenTable(spark, table.folder, SCHEMA).write([(2, "north", 1, "b")])
    assert table.rows("id", "_hoodie_is_deleted") == [(1, None), (2, False)]


@pytest.mark.slow_with("spark-COPY_ON_WRITE", "spark-MERGE_ON_READ")
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_rows_may_be_marked_as_deletes_in_a_column_of_the_users(
    spark: SparkSession, tmp_path: Path, table_type: str
) -> None:
    marked = {"hoodie.payload.delete.field": "OP", "hoodie.payload.delete.marker": "D"}
    table = WrittenTable.create(
        spark,
        tmp_path / "t",
        SCHEMA.append(pa.field("op", pa.string())),
        partition_by=["region"],
        ordering=["ts"],
        table_type=table_type,
    )
    table.write([(n, "north", 5, "a", "I") for n in range(3)], "insert")
    changes = [(0, "north", 6, "", "D"), (1, "north", 4, "", "D"), (9, "north", 6, "", "D")]
    table.write([*changes, (2, "north", 6, "b", None)], options=marked)
    read = [(row.id, row.v) for row in table.lake.snapshot(spark).orderBy("id").collect()]
    assert read == [(1, "a"), (2, "b")]


def test_columns_come_in_any_order_and_case_and_meta_columns_are_ignored(
    table: WrittenTable,
) -> None:
    frame = table.frame(rows(range(3), 1)).select(
        F.lit("stale").alias("_hoodie_commit_time"),
        F.lit("stale").alias("_hoodie_record_key"),
        F.col("v").alias("V"),
        F.col("ts").cast("int").alias("TS"),
        F.col("region").alias("Region"),
        F.col("id").alias("ID"),
    )
    report = table.write(frame, "insert")
    assert table.rows() == sorted(rows(range(3), 1))
    stored = stored_rows(table.folder)
    assert {row["_hoodie_commit_time"] for row in stored} == {report.instant}
    assert list(stored[0])[5:] == SCHEMA.names


@pytest.mark.slow_with("spark")
def test_custom_keys_hive_style_and_encoding_make_the_folders(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = WrittenTable.create(
        spark,
        tmp_path / "t",
        SCHEMA,
        partition_by=["region:SIMPLE", "ts:TIMESTAMP"],
        key_generator="CUSTOM",
        hive_style=True,
        url_encode=True,
        properties={
            "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
            "hoodie.keygen.timebased.output.dateformat": "yyyy/MM",
        },
    )
    january, may = 1_704_470_400_000, 1_715_000_000_000
    table.write([(1, "a/b", january, "1"), (2, "", january, "1"), (3, None, may, "1")])
    table.write([(1, "a/b", january, "2"), (1, "a/b", may, "2"), (4, "ü=😀", may, "2")])
    assert table.rows("id", "v") == [(1, "2"), (1, "2"), (2, "1"), (3, "1"), (4, "2")]
    paths = {path.parent.relative_to(table.folder).as_posix() for path in live_files(table.folder)}
    assert paths == {
        "region=a%2Fb/ts=2024%2F01",
        "region=a%2Fb/ts=2024%2F05",
        "region=__HIVE_DEFAULT_PARTITION__/ts=2024%2F01",
        "region=__HIVE_DEFAULT_PARTITION__/ts=2024%2F05",
        "region=ü%3D😀/ts=2024%2F05",
    }
    assert table.lake.snapshot(spark).where("region = 'a/b' and v = '2'").count() == 2
    table.lake.delete_partitions(["region=a%2Fb/ts=2024%2F01"])
    assert table.rows("id", "v") == [(1, "2"), (2, "1"), (3, "1"), (4, "2")]
