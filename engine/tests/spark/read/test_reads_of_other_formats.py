"""Tables of ORC or Lance base files on Spark: every way to read them, with logs and without."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tideline.errors import UnsupportedTableError
from tideline.hudi.table.properties import TableType
from tideline.lake_table import LakeTable
from tideline.spark.read.data_source import register
from tideline.testing.hand_written_table import HandWrittenTable, instant_time

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("n", pa.int32())])
ONE, TWO, THREE = (str(instant_time(number)) for number in "123")


def file_id(day: str) -> str:
    return f"1111111{day[1]}-2222-3333-4444-555555555555-0"


def rows(day: str, **values: int) -> pa.Table:
    return pa.table(
        [list(values), [day] * len(values), pa.array(values.values(), pa.int32())], schema=SCHEMA
    )


@pytest.fixture(params=["orc", pytest.param("lance", marks=pytest.mark.interop)])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> HandWrittenTable:
    """Commit 1 writes a=1 and b=1 into two days; in d1 2 updates a, and 3 deletes b."""
    if request.param == "lance":
        request.getfixturevalue("lance_on_spark")
    table = HandWrittenTable.create(
        tmp_path,
        SCHEMA,
        file_format=request.param,
        partition_by=("day",),
        table_type=TableType.MERGE_ON_READ,
        ordering=("n",),
    )
    table.commit("1", {(day, file_id(day)): rows(day, a=1, b=1) for day in ("d1", "d2")})
    table.append("2", {("d1", file_id("d1")): rows("d1", a=2)})
    table.append("3", {}, {("d1", file_id("d1")): ["b"]})
    return table


def values(frame: DataFrame) -> list[str]:
    return sorted(f"{row['day']}:{row['id']}={row['n']}" for row in frame.collect())


FIRST = ["d1:a=1", "d1:b=1", "d2:a=1", "d2:b=1"]
NOW = ["d1:a=2", "d2:a=1", "d2:b=1"]


def test_every_way_to_read_a_table_of_logs(spark: SparkSession, written: HandWrittenTable) -> None:
    table = LakeTable.open(written.location.uri)
    assert values(table.snapshot(spark)) == NOW
    assert values(table.snapshot(spark, as_of=ONE)) == FIRST
    assert values(table.read_optimized(spark)) == FIRST
    assert values(table.incremental(spark, ONE)) == ["d1:a=2"]
    assert values(table.incremental(spark, "0", TWO)) == ["d1:a=2", *FIRST[1:]]
    register(spark)
    reader = spark.read.format("tideline")
    assert values(reader.load(written.location.uri)) == NOW
    assert values(reader.option("as_of", ONE).load(written.location.uri)) == FIRST


def test_filters_leave_files_out_and_columns_are_chosen(
    spark: SparkSession, written: HandWrittenTable
) -> None:
    frame = LakeTable.open(written.location.uri).snapshot(spark)
    assert frame.count() == 3
    assert frame.select("_hoodie_commit_time").distinct().count() == 2
    for file in written.path("d1").iterdir():
        file.unlink()
    assert values(frame.where("day = 'd2'")) == ["d2:a=1", "d2:b=1"]
    assert frame.where("day = 'd2'").agg({"n": "sum"}).collect()[0][0] == 2


def test_where_rows_are_merged_by_custom_code_files_without_logs_are_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = HandWrittenTable.create(tmp_path, SCHEMA, file_format="orc", partition_by=("day",))
    table.commit("1", {("d1", file_id("d1")): rows("d1", a=1)})
    table.set_properties({"hoodie.compaction.payload.class": "com.acme.Payload"})
    assert values(LakeTable.open(table.location.uri).snapshot(spark)) == ["d1:a=1"]
    table.append("2", {("d1", file_id("d1")): rows("d1", a=2)})
    with pytest.raises(UnsupportedTableError, match="merged in a custom way"):
        LakeTable.open(table.location.uri).snapshot(spark)
    assert values(LakeTable.open(table.location.uri).read_optimized(spark)) == ["d1:a=1"]


def test_files_of_a_format_that_is_not_read_are_refused_by_name(
    spark: SparkSession, written: HandWrittenTable
) -> None:
    for file in written.path("d2").glob("*-0_*"):
        file.rename(file.with_suffix(".hfile"))
    with pytest.raises(UnsupportedTableError, match=r"format are not read.*\.hfile"):
        LakeTable.open(written.location.uri).snapshot(spark)
