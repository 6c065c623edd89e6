"""Rows of Spark DataFrames in Iceberg tables: written by tasks, in one commit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tideline
from tideline.errors import InvalidDataError
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.spark.arrow_frame import frame_of

pytestmark = [pytest.mark.spark]

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("part", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("price", pa.decimal128(9, 2)),
        ("code", pa.binary(3)),
        ("place", pa.struct([("zip", pa.int32()), ("tags", pa.list_(pa.string()))])),
    ]
)
AT = dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC)


def rows(*numbers: int) -> pa.Table:
    found = [
        {
            "id": n,
            "part": f"p{n % 3}" if n % 5 else None,
            "at": AT + dt.timedelta(hours=n),
            "local": AT.replace(tzinfo=None),
            "price": Decimal(n) / 4,
            "code": b"abc",
            "place": {"zip": n, "tags": ["x", None]} if n % 4 else None,
        }
        for n in numbers
    ]
    return pa.Table.from_pylist(found, COLUMNS)


def created(folder: Path, **definition: Any) -> IcebergLakeTable:
    return tideline.create_iceberg(str(folder / "table"), COLUMNS, **definition)


def frame(spark: SparkSession, *numbers: int, tasks: int = 4) -> DataFrame:
    return frame_of(spark, rows(*numbers)).repartition(tasks)


def found(table: IcebergLakeTable) -> list[dict[str, Any]]:
    stored: list[dict[str, Any]] = table.refresh().to_arrow().sort_by("id").to_pylist()
    return stored


def data_files(table: IcebergLakeTable) -> set[Path]:
    return set(Path(table.uri.removeprefix("file://"), "data").rglob("*.parquet"))


@contextmanager
def session_setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before or "")


@pytest.mark.parametrize("version", [2, 3])
def test_rows_are_those_of_a_write_without_spark(
    spark: SparkSession, tmp_path: Path, version: int
) -> None:
    table = created(tmp_path, format_version=version)
    with session_setting(spark, "spark.sql.session.timeZone", "America/New_York"):
        report = table.write(frame(spark, *range(40)))
        assert report.rows_inserted == 40
    table.write(rows(*range(40, 50)))
    assert found(table) == rows(*range(50)).to_pylist()
    assert not table.check()


@pytest.mark.parametrize(("mode", "files"), [("hash", 4), ("range", 4), ("none", 16)])
def test_a_partition_is_one_tasks_unless_rows_stay_where_they_are(
    spark: SparkSession, tmp_path: Path, mode: str, files: int
) -> None:
    table = created(
        tmp_path,
        partition_by="part",
        sort_by="id DESC",
        properties={"write.distribution-mode": mode},
    )
    with session_setting(spark, "spark.sql.shuffle.partitions", "3"):
        table.append(frame(spark, *range(400)))
    assert len(data_files(table)) == files
    assert found(table) == rows(*range(400)).to_pylist()
    for file in data_files(table):
        ids = pq.ParquetFile(file).read(["id"])["id"].to_pylist()
        assert ids == sorted(ids, reverse=True)
    assert not table.check()


def test_overwrites_take_the_rows_of_a_frame(spark: SparkSession, tmp_path: Path) -> None:
    table = created(tmp_path, partition_by="part")
    table.append(frame(spark, *range(30)))
    report = table.write(frame(spark, 1, 4), "overwrite_partitions")
    assert (report.rows_inserted, report.rows_deleted) == (2, 8)
    kept = [n for n in range(30) if n in {1, 4} or n % 3 != 1 or n % 5 == 0]
    assert [row["id"] for row in found(table)] == kept
    table.write(frame(spark, 100), "overwrite", where="id < 20")
    assert [row["id"] for row in found(table)] == [n for n in [*kept, 100] if n >= 20]
    table.write(frame(spark, 7), "overwrite")
    assert [row["id"] for row in found(table)] == [7]


def test_a_token_writes_once_and_runs_no_job_again(spark: SparkSession, tmp_path: Path) -> None:
    table = created(tmp_path)
    seen = spark.sparkContext.accumulator(0)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch

    given = frame(spark, *range(10)).mapInArrow(count, frame(spark).schema)
    assert not table.write(given, token="nightly").is_repeat
    assert table.refresh().write(given, token="nightly").is_repeat
    assert seen.value == 10
    assert len(found(table)) == 10


@pytest.mark.parametrize("partition_by", ["", "part"])
def test_rows_that_do_not_fit_leave_nothing(
    spark: SparkSession, tmp_path: Path, partition_by: str
) -> None:
    table = created(tmp_path, partition_by=partition_by)
    given = frame(spark, *range(100))
    null = given.withColumn("id", F.when(F.col("id") != 77, F.col("id")))
    with pytest.raises(InvalidDataError, match="a required column has nulls"):
        table.write(null)
    with pytest.raises(InvalidDataError, match="no such column"):
        table.write(given.withColumn("more", F.lit(1)))
    with pytest.raises(InvalidDataError, match=r"the column price is decimal\(9, 2\) in the table"):
        table.write(given.withColumn("price", F.lit("1")))
    assert not data_files(table) and not table.refresh().snapshots
