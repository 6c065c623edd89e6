"""A DataFrame whose rows are few is computed once and written by this process."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tideline.errors import InvalidDataError
from tideline.hudi.write.write_operation import WriteOperation
from tideline.lake_table import LakeTable
from tideline.spark.write.held_rows import held_rows, may_be_held
from tideline.testing.spark_stages import stages_begun

pytestmark = pytest.mark.spark

ON_SPARK = {"tideline.engine.small": "spark"}
PLENTY = 1 << 30


@pytest.fixture
def lake(tmp_path: Path) -> LakeTable:
    """A table without a schema, keyed by `id`, later `v` wins."""
    return LakeTable.create(str(tmp_path / "t"), record_key="id", ordering="v")


def test_a_frame_is_computed_once(spark: SparkSession, lake: LakeTable) -> None:
    lake.write(pa.table({"id": ["a"], "v": [1]}))
    computed = spark.sparkContext.accumulator(0)

    def count(value: int) -> int:
        computed.add(1)
        return value

    counted = F.udf(count, "long")
    rows = spark.range(100).select(F.col("id").cast("string"), counted("id").alias("v"))
    report = lake.write(rows)
    assert (report.rows_inserted, computed.value) == (100, 100)


def test_one_stage_of_spark_is_enough(spark: SparkSession, lake: LakeTable) -> None:
    rows = spark.createDataFrame(pa.table({"id": ["a", "b"], "v": [1, 2]}))
    lake.write(rows)
    before = stages_begun(spark)
    lake.write(rows)
    assert stages_begun(spark) == before + 1
    lake.write(rows, options=ON_SPARK)
    assert stages_begun(spark) > before + 3


@pytest.mark.parametrize(
    "zone",
    [
        "America/Los_Angeles",
        pytest.param("UTC", marks=pytest.mark.slow),
        pytest.param("Asia/Kolkata", marks=pytest.mark.slow),
    ],
)
def test_values_are_stored_as_sparks_tasks_store_them(
    spark: SparkSession, tmp_path: Path, zone: str
) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        found = []
        for number, options in enumerate(({}, ON_SPARK)):
            lake = LakeTable.create(str(tmp_path / f"t{number}"), record_key="id", ordering="v")
            lake.write(_every_type(spark), options=options)
            lake.write(_every_type(spark).limit(2), options=options)
            found.append(lake.to_arrow(sorted(_every_type(spark).columns)))
        held, by_tasks = (rows.sort_by("id") for rows in found)
        assert held.schema == by_tasks.schema
        assert held.to_pylist() == by_tasks.to_pylist()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


def test_rows_that_grow_beyond_the_limit_go_to_sparks_tasks(
    spark: SparkSession, lake: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = spark.range(10).select(F.explode(F.sequence(F.lit(0), F.lit(999))).alias("v"))
    rows = few.select(F.monotonically_increasing_id().cast("string").alias("id"), "v")
    assert may_be_held(rows, 100_000)
    assert held_rows(rows, lake.hoodie_table, WriteOperation.UPSERT, 100_000) is None
    monkeypatch.setattr("tideline.in_process.run.BATCH_BYTES_MAX", 100_000)
    report = lake.write(rows)
    assert report.rows_inserted == 10_000
    assert lake.to_arrow(["v"]).num_rows == 10_000


def test_large_frames_are_not_asked_for(spark: SparkSession) -> None:
    rows = spark.range(1_000_000)
    assert may_be_held(rows, PLENTY)
    assert not may_be_held(rows, 1_000_000)
    assert not may_be_held(rows.crossJoin(rows.withColumnRenamed("id", "other")), PLENTY)


def test_a_delete_takes_the_key_columns_alone(spark: SparkSession, lake: LakeTable) -> None:
    lake.write(pa.table({"id": ["a", "b"], "v": [1, 2]}))
    broken = F.raise_error(F.col("id").cast("string")).cast("long")
    rows = spark.range(1).select(F.lit("a").alias("id"), broken.alias("v"))
    assert lake.write(rows, "delete").rows_deleted == 1
    assert lake.to_arrow(["id"]).to_pylist() == [{"id": "b"}]


def test_names_that_differ_in_case_alone_are_refused(spark: SparkSession, lake: LakeTable) -> None:
    rows = spark.createDataFrame(pa.table({"id": ["a"], "v": [1]})).withColumn("w", F.lit(1))
    twice = rows.select("id", "v", F.col("w").alias("V"))
    with pytest.raises(InvalidDataError):
        lake.write(twice)


def _every_type(spark: SparkSession) -> DataFrame:
    moment = datetime(2024, 3, 10, 2, 30, 0, 123456)
    rows = [
        (
            f"k{number}",
            number,
            number % 2 == 0,
            float(number) / 3,
            Decimal(number) / 8,
            date(1969, 12, 31) if number else date(1582, 10, 15),
            bytes([number]),
            f"text {number} – ß" if number else None,
            [number, None],
            {"a": number},
            {"at": moment, "inner": {"n": number}},
        )
        for number in range(5)
    ]
    schema = (
        "id string, v long, flag boolean, part double, price decimal(12,3), day date, raw binary,"
        " note string, list array<int>, map map<string,long>,"
        " nested struct<at:timestamp,inner:struct<n:int>>"
    )
    frame = spark.createDataFrame(rows, schema)
    return (
        frame.withColumn("seen", F.lit("2024-11-03 01:30:00").cast("timestamp"))
        .withColumn("wall", F.lit("2024-11-03 01:30:00").cast("timestamp_ntz"))
        .withColumn("small", F.col("v").cast("smallint"))
        .withColumn("tiny", F.col("v").cast("tinyint"))
        .withColumn("real", F.col("part").cast("float"))
        .withColumn("times", F.array(F.col("nested.at")))
    )
