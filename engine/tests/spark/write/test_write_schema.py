"""Schemas that change from write to write, and those that may not."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tideline.errors import InvalidDataError
from tideline.lake_table import LakeTable
from tideline.testing.interop_rows import SCHEMA as TYPED
from tideline.testing.interop_rows import typed_rows
from tideline.testing.plain_reader import live_files, newest_commit, objects, stored_rows
from tideline.testing.written_table import SMALL_BLOOM, WrittenTable

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("either_engine")]

NARROW = pa.schema(
    [("id", pa.string()), ("i", pa.int32()), ("l", pa.int32()), ("d", pa.int32()),
     ("f", pa.float32()), ("p", pa.decimal128(9, 2))]
)  # fmt: skip
WIDE = pa.schema(
    [("id", pa.string()), ("i", pa.int32()), ("l", pa.int64()), ("d", pa.float64()),
     ("f", pa.float64()), ("p", pa.decimal128(9, 2)), ("added", pa.string())]
)  # fmt: skip


def test_columns_are_added_and_widened_and_old_rows_follow(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = WrittenTable.create(spark, tmp_path / "t", NARROW)
    table.write([("a", 1, 2, 3, 1.5, Decimal("1.25")), ("b", 4, 5, 6, None, None)])
    wide = WrittenTable(spark, table.folder, WIDE)
    report = wide.write([("a", 7, 2**40, 0.5, 2.25, Decimal("1.00"), "new")])
    assert wide.rows() == [
        ("a", 7, 2**40, 0.5, 2.25, Decimal("1.00"), "new"),
        ("b", 4, 5, 6.0, None, None, None),
    ]
    assert report.rows_updated == 1
    (path,) = live_files(table.folder)
    assert pq.read_schema(path).field("l").type == pa.int64()
    assert '"added"' in newest_commit(table.folder)["extraMetadata"]["schema"]
    # Narrower values are promoted; the table stays as wide as it is.
    frame = table.frame([("c", 1, 2, 3, 4.5, Decimal("0.10"))]).withColumn("added", F.lit("x"))
    narrow_decimal = frame.withColumn("p", F.col("p").cast("decimal(5,1)"))
    wide.write(narrow_decimal, "bulk_insert")
    assert wide.rows()[2] == ("c", 1, 2, 3.0, 4.5, Decimal("0.10"), "x")
    assert table.lake.snapshot(spark).schema["d"].dataType.simpleString() == "double"
    # Deletes by key leave the schema alone, even with a key of another type.
    wide.write(frame.select("id"), "delete")
    assert [row[0] for row in wide.rows("id")] == ["a", "b"]
    assert '"added"' in newest_commit(table.folder)["extraMetadata"]["schema"]


def test_changes_that_lose_something_are_refused_with_column_and_types(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = WrittenTable.create(spark, tmp_path / "t", WIDE)
    table.write([("a", 1, 2, 3.0, 4.0, Decimal("1.25"), "x")])
    before = objects(table.folder)
    good = table.frame([("a", 9, 9, 9.0, 9.0, Decimal("9.00"), "y")])
    uri = f"table={table.lake.uri}"
    refused = {
        "column i cannot change from int32 to string": good.withColumn("i", F.lit("text")),
        "column l cannot change from int64 to timestamp": good.withColumn(
            "l", F.lit(dt.datetime(2024, 1, 5))
        ),
        "column added cannot change from string to int32": good.withColumn("added", F.lit(1)),
        "column p cannot change from decimal128.*2. to decimal128": good.withColumn(
            "p", F.lit(Decimal("1.234"))
        ),
        "ambiguous column I: names differ only by case": good.toDF(
            "id", "i", "I", "d", "f", "p", "added"
        ),
        "column m: the keys of a map must be strings": good.withColumn("m", F.expr("map(1, 2)")),
        "column j: a table cannot store values of type variant": good.withColumn(
            "j", F.expr("parse_json('1')")
        ),
        "column names start with a letter": good.withColumn("a b", F.lit(1)),
        "a column name holds a backtick": good.withColumnRenamed("f", "a`b"),
    }
    for message, frame in refused.items():
        with pytest.raises(InvalidDataError, match=message) as caught:
            table.lake.write(frame, "upsert")
        assert uri in str(caught.value) and caught.value.exit_code == 1
    assert objects(table.folder) == before


@pytest.mark.slow_with("spark")
def test_a_table_without_a_schema_takes_that_of_its_first_write(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "t"
    LakeTable.create(
        str(folder), record_key=["id"], partition_by=["part"], ordering=["ts"],
        properties=SMALL_BLOOM,
    )  # fmt: skip
    frame = spark.sql(
        "SELECT 'a' AS ID, 'p' AS Part, 1 AS TS, cast(1 AS tinyint) AS small, 'v' AS V"
    )
    LakeTable.open(str(folder)).write(frame, "upsert")
    (row,) = stored_rows(folder)
    assert {name: row[name] for name in list(row)[5:]} == {
        "id": "a", "part": "p", "ts": 1, "small": 1, "V": "v",
    }  # fmt: skip
    LakeTable.open(str(folder)).write(frame.withColumn("V", F.lit("w")), "upsert")
    assert [row["V"] for row in stored_rows(folder)] == ["w"]


def test_rows_of_every_type_survive_being_written_and_rewritten(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = WrittenTable.create(
        spark, tmp_path / "t", TYPED, record_key=["id", "line"], partition_by=["region"],
        ordering=["ts"],
    )  # fmt: skip
    table.write(typed_rows(range(15), version=1), "bulk_insert")
    table.write(typed_rows(range(0, 15, 2), version=2))
    expected = typed_rows(range(0, 15, 2), version=2).to_pylist()
    expected += typed_rows(range(1, 15, 2), version=1).to_pylist()
    stored = [{name: row[name] for name in TYPED.names} for row in stored_rows(table.folder)]
    by_id = sorted(stored, key=lambda row: str(row["id"]))
    assert by_id == sorted(expected, key=lambda row: str(row["id"]))


@pytest.mark.parametrize("column", ["id", "day"])
def test_a_column_of_the_key_or_the_partition_keeps_the_texts_of_its_values(
    spark: SparkSession, tmp_path: Path, column: str
) -> None:
    schema = pa.schema([("id", pa.int32()), ("day", pa.int32()), ("v", pa.string())])
    table = WrittenTable.create(spark, tmp_path / "t", schema, partition_by=["day"])
    table.write([(1, 2, "old")])
    at = schema.get_field_index(column)
    real = WrittenTable(spark, table.folder, schema.set(at, pa.field(column, pa.float64())))
    for operation in ("upsert", "insert", "bulk_insert", "delete", "insert_overwrite"):
        with pytest.raises(InvalidDataError, match=f"column {column} is part of the"):
            real.write([(1, 2, "new")], operation)
    assert table.rows() == [(1, 2, "old")]
    long = WrittenTable(spark, table.folder, schema.set(at, pa.field(column, pa.int64())))
    long.write([(1, 2, "new")])
    assert table.rows() == [(1, 2, "new")]
    real.write([(1, 2, "newest")], "insert_overwrite_table")
    assert table.rows() == [(1, 2, "newest")]
