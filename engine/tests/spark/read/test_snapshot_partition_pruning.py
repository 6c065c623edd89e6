"""Native reads of exactly the files of a table, with its partitions pruned by Spark itself."""

from __future__ import annotations

import datetime as dt
import os
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tideline.errors import TidelineError, UnsupportedTableError
from tideline.hudi.read.partition_values import PartitionColumn, PartitionLayout
from tideline.hudi.table.file_group import BaseFile
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.spark.read.file_index import read_base_files
from tideline.spark.read.frames import snapshot
from tideline.storage.location import StoreLocation
from tideline.testing.hand_written_table import HandWrittenTable
from tideline.testing.in_time import in_time

pytestmark = pytest.mark.spark

T1, T2 = "1", "2"
DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")


def files_read(frame: DataFrame) -> int:
    """How many files Spark's scans open to run the query."""
    # A frame that has run already keeps its scans, but not what they counted.
    again = frame.select("*")
    again.collect()
    plan: Any = again._jdf.queryExecution().executedPlan()
    if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
        plan = plan.executedPlan()
    leaves = plan.collectLeaves()
    counts = [leaves.apply(index).metrics().get("numFiles") for index in range(leaves.size())]
    return sum(count.get().value() for count in counts if count.isDefined())


def physical_plan(frame: DataFrame) -> str:
    plan: Any = frame._jdf.queryExecution()
    return str(plan.executedPlan().toString())


def daily_table(folder: Path, **definition: Any) -> HandWrittenTable:
    """One file a day, each in two versions; the later versions hold id + 100."""
    schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
    table = HandWrittenTable.create(folder, schema, partition_by=("day",), **definition)
    hive = definition.get("hive_style", False)
    for version, instant in enumerate((T1, T2)):
        table.commit(
            instant,
            {
                (f"day={day}" if hive else day, f"f{number}-0"): pa.table(
                    {"id": [number + 100 * version], "day": [day]}, schema=schema
                )
                for number, day in enumerate(DAYS)
            },
        )
    return table


@pytest.mark.parametrize("hive_style", [False, True])
def test_a_filter_on_the_partition_column_reads_its_files_only(
    spark: SparkSession, tmp_path: Path, hive_style: bool
) -> None:
    frame = snapshot(spark, daily_table(tmp_path / "t", hive_style=hive_style).open())
    candidate = frame.where("day = '2024-01-02'").select("id")
    assert [row["id"] for row in candidate.collect()] == [101]
    assert files_read(candidate) == 1
    later = frame.where("day > '2024-01-01' and id >= 0")
    assert files_read(later) == 2
    assert "PartitionFilters: [isnotnull(day" in physical_plan(candidate)
    assert "Batched: true" in physical_plan(candidate)


def test_only_the_newest_version_of_a_file_is_listed(spark: SparkSession, tmp_path: Path) -> None:
    frame = snapshot(spark, daily_table(tmp_path / "t").open())
    assert sorted(name.rpartition("_")[2] for name in frame.inputFiles()) == [
        "20260101000000002.parquet"
    ] * len(DAYS)
    assert files_read(frame) == len(DAYS)


def test_refreshing_spark_does_not_bring_older_versions_in(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = daily_table(tmp_path / "t")
    frame = snapshot(spark, table.open())
    spark.catalog.refreshByPath(table.location.spark_uri())
    assert sorted(row["id"] for row in frame.select("id").collect()) == [100, 101, 102]


def test_frames_of_two_instants_are_not_mixed_up_when_one_is_cached(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = daily_table(tmp_path / "t").open()
    first = snapshot(spark, table, "20260101000000001").select("id").cache()
    try:
        assert first.agg(F.sum("id")).collect()[0][0] == 3
        assert snapshot(spark, table).select("id").agg(F.sum("id")).collect()[0][0] == 303
    finally:
        first.unpersist()


def test_partition_columns_have_the_types_of_the_table(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("d", pa.date32()),
            ("n", pa.int32()),
            ("b", pa.bool_()),
            ("m", pa.decimal128(6, 2)),
            ("x", pa.float64()),
        ]
    )
    table = HandWrittenTable.create(
        tmp_path / "t", schema, partition_by=("d", "n", "b", "m", "x"), hive_style=True
    )
    row = (dt.date(2024, 1, 5), -7, True, Decimal("12.30"), 1.0e10)
    other = (dt.date(2024, 1, 6), None, False, Decimal("-0.50"), 0.25)
    files = {}
    for number, values in enumerate((row, other)):
        texts = [
            values[0].isoformat(),
            "__HIVE_DEFAULT_PARTITION__" if values[1] is None else str(values[1]),
            str(values[2]).lower(),
            str(values[3]),
            "1.0E10" if values is row else "0.25",
        ]
        path = "/".join(f"{name}={text}" for name, text in zip("dnbmx", texts, strict=True))
        arrays = [[number], *([value] for value in values)]
        columns = [pa.array(a, f.type) for a, f in zip(arrays, schema, strict=True)]
        files[path, f"f{number}-0"] = pa.table(columns, schema=schema)
    table.commit(T1, files)
    frame = snapshot(spark, table.open()).select(*schema.names)
    assert [tuple(found) for found in frame.orderBy("id").collect()] == [(0, *row), (1, *other)]
    for condition in ("d = '2024-01-05'", "n = -7", "b", "m > 1", "x = 1e10"):
        matching = frame.where(condition)
        assert [found["id"] for found in matching.collect()] == [0], condition
        assert files_read(matching) == 1, condition
    assert files_read(frame.where("n is null")) == 1


ODD_VALUES = ("a b", "é日", "a%3Ab", "a:b", "x=y", "[z]", "{q}", "*", "a#b", "q?r", "%25", "+")


def test_any_character_may_be_in_a_partition_path(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = HandWrittenTable.create(tmp_path / "a table", schema, partition_by=("p",))
    table.commit(
        T1,
        {
            (value, f"f{number}-0"): pa.table({"id": [number], "p": [value]}, schema=schema)
            for number, value in enumerate(ODD_VALUES)
        },
    )
    frame = snapshot(spark, table.open())
    assert {row["id"]: row["p"] for row in frame.collect()} == dict(enumerate(ODD_VALUES))
    # The two that look encoded are read for every filter.
    for value in ("a:b", "[z]", "é日"):
        assert files_read(frame.where(F.col("p") == value)) == 3
    assert frame.where("p = 'a%3Ab'").count() == 1


def test_files_read_without_layout_give_their_names(spark: SparkSession, tmp_path: Path) -> None:
    table = daily_table(tmp_path / "t")
    opened = table.open()
    files = opened.files.view(opened.timeline()).latest_base_files(DAYS[0])
    schema = T.StructType().add("id", "long")
    frame = read_base_files(spark, opened.location, files, schema)
    [row] = frame.select("id", "_metadata.file_name").collect()
    assert (row["id"], row["file_name"]) == (100, files[0].name)


def test_encoded_paths_are_pruned_by_the_value_they_stand_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = HandWrittenTable.create(
        tmp_path / "t", schema, partition_by=("p",), url_encode=True, hive_style=True
    )
    values = {"p=a%2Fb": "a/b", "p=10%3A30": "10:30", "p=100%25": "100%"}
    table.commit(
        T1,
        {
            (path, f"f{number}-0"): pa.table({"id": [number], "p": [value]}, schema=schema)
            for number, (path, value) in enumerate(values.items())
        },
    )
    frame = snapshot(spark, table.open())
    assert sorted(row["p"] for row in frame.collect()) == sorted(values.values())
    assert files_read(frame.where("p = 'a/b'")) == 1


def test_uncertain_partitions_keep_the_values_of_their_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = HandWrittenTable.create(tmp_path / "t", schema, partition_by=("p",))
    rows = pa.table({"id": [1, 2], "p": [None, ""]}, schema=schema)
    table.commit(
        T1,
        {
            ("__HIVE_DEFAULT_PARTITION__", "f1-0"): rows,
            ("2015/03/17", "f2-0"): pa.table({"id": [3], "p": ["2015/03/17"]}, schema=schema),
            ("plain", "f3-0"): pa.table({"id": [4], "p": ["plain"]}, schema=schema),
        },
    )
    frame = snapshot(spark, table.open())
    found = {row["id"]: row["p"] for row in frame.collect()}
    assert found == {1: None, 2: "", 3: "2015/03/17", 4: "plain"}
    assert [row["id"] for row in frame.where("p is null").collect()] == [1]
    assert [row["id"] for row in frame.where("p = '2015/03/17'").collect()] == [3]
    assert files_read(frame.where("p = 'plain'")) == 3


def test_formatted_times_are_read_from_the_files(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.int64())])
    table = HandWrittenTable.create(tmp_path / "t", schema)
    table.set_properties(
        {
            "hoodie.table.partition.fields": "at",
            "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        }
    )
    rows = pa.table({"id": [1], "at": [1_704_067_200_000]}, schema=schema)
    table.commit(T1, {("2024-01-01", "f-0"): rows})
    frame = snapshot(spark, table.open())
    assert [row["at"] for row in frame.collect()] == [1_704_067_200_000]
    assert frame.where("at = 1704067200000").count() == 1


def test_columns_left_out_of_the_files_come_from_the_path(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = pa.schema([("id", pa.int64())])
    table = HandWrittenTable.create(tmp_path / "t", schema)
    table.set_properties(
        {
            "hoodie.table.partition.fields": "day,hour",
            "hoodie.datasource.write.drop.partition.columns": "true",
        }
    )
    for number, path in enumerate(("x/07", "__HIVE_DEFAULT_PARTITION__/08")):
        rows = pa.table({"id": [number]}, schema=schema)
        table.commit(str(number + 1), {(path, f"f{number}-0"): rows})
    frame = snapshot(spark, table.open())
    assert [tuple(row) for row in frame.select("id", "day", "hour").orderBy("id").collect()] == [
        (0, "x", "07"),
        (1, None, "08"),
    ]
    assert files_read(frame.where("hour = '07'")) == 1
    table.commit("3", {("a/b/c", "f9-0"): pa.table({"id": [9]}, schema=schema)})
    with pytest.raises(UnsupportedTableError, match="does not give"):
        snapshot(spark, table.open())


def test_a_thousand_files_are_known_without_asking_the_store(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark alone asks for the status of each; it takes seconds, and minutes on S3."""
    schema = T.StructType().add("id", "long").add("p", "string")
    path = tmp_path / "one.parquet"
    pq.write_table(pa.table({"id": [1], "p": ["00007"]}), path)
    template = BaseFile("", "", "0-0-0", InstantTime("20260101000000001"), path.stat().st_size)
    files = [
        replace(template, partition=f"{number % 100:05d}", file_id=f"f{number}-0")
        for number in range(1000)
    ]
    layout = PartitionLayout((PartitionColumn("p", pa.string()),))
    location = StoreLocation.of(tmp_path / "t")
    read_base_files(spark, location, files, schema, layout)
    begin = time.monotonic()
    frame = read_base_files(spark, location, files, schema, layout)
    assert time.monotonic() - begin < 5
    # None of the files exists but the one that the filter leaves.
    (tmp_path / "t" / "00007").mkdir(parents=True)
    for file in files:
        if file.partition == "00007":
            (tmp_path / "t" / file.path).hardlink_to(path)
    assert frame.where("p = '00007'").count() == 10


@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_java_is_given_no_file_that_waits_or_leads_out_of_the_table(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    file = BaseFile("p", "f-0", "0-0-0", InstantTime("20260101000000001"), 100)
    place = tmp_path / "t" / file.path
    place.parent.mkdir(parents=True)
    if kind == "fifo":
        os.mkfifo(place)
    else:
        (tmp_path / "outside").write_bytes(b"")
        place.symlink_to(tmp_path / "outside")
    schema = T.StructType().add("id", "long")
    location = StoreLocation.of(tmp_path / "t")
    with pytest.raises(TidelineError, match=r"is a fifo|leads out of the folder"):
        in_time(lambda: read_base_files(spark, location, [file], schema))
    outside = BaseFile("../u", "f-0", "0-0-0", InstantTime("20260101000000001"), 100)
    with pytest.raises(TidelineError, match="segment"):
        read_base_files(spark, location, [outside], schema)
