"""Frames of a table open the files that may hold rows of the query, and no other."""

from __future__ import annotations

import datetime as dt
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tideline.hudi.table.table_config import TableType
from tideline.index_lookups import lookups_so_far
from tideline.lake_table import LakeTable
from tideline.spark.read import slice_choice
from tideline.storage.location import StoreLocation
from tideline.testing.kept_statistics import (
    begin_record_index,
    begin_secondary_index,
    begin_statistics,
)
from tideline.testing.reads_by_statistics import statistics_always_used, statistics_unused
from tideline.testing.small_table import CHEAP, QUIET
from tideline.testing.table_audit import open_fresh

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("n", pa.int64()),
        ("s", pa.string()),
        ("city", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("amount", pa.decimal128(10, 2)),
        ("f", pa.float64()),
    ]
)
PARTITIONS, FILES = 4, 3
START = dt.datetime(2026, 1, 1)


def row_of(key: int, v: int = 0) -> dict[str, Any]:
    near = key % PARTITIONS * 1000 + key + v
    then = START + dt.timedelta(hours=near)
    return {
        "id": f"k{key:03}",
        "part": f"p{key % PARTITIONS}",
        "n": near,
        "s": f"s{near:06}",
        "city": f"city {key}",
        "day": then.date(),
        "at": then.replace(tzinfo=dt.UTC),
        "local": then,
        "amount": Decimal(near) / 4,
        "f": near / 2,
    }


class OnDisk:
    """A table in a folder, of several files in each partition."""

    def __init__(self, path: Path, table_type: TableType) -> None:
        self.path = path
        LakeTable.create(
            str(path),
            record_key=["id"],
            partition_by=["part"],
            schema=SCHEMA,
            table_type=table_type.value,
            properties=CHEAP,
        )
        table = self.lake().hoodie_table
        begin_statistics(table, [name for name in SCHEMA.names if name != "f"])
        begin_record_index(table)
        begin_secondary_index(table, "city")
        for file in range(FILES):
            self.write(range(file * 8, file * 8 + 8), operation="bulk_insert")

    def lake(self) -> LakeTable:
        return LakeTable(open_fresh(StoreLocation.of(self.path)))

    def write(self, keys: Any, v: int = 0, operation: str = "upsert") -> None:
        rows = pa.Table.from_pylist([row_of(key, v) for key in keys], SCHEMA)
        self.lake().write(rows, operation, options=QUIET)

    def without(self, *partitions: str) -> None:
        """Take the data files of partitions away, whose rows no query asks for."""
        for partition in partitions:
            shutil.rmtree(self.path / partition)


TYPES = [
    pytest.param(TableType.COPY_ON_WRITE),
    pytest.param(TableType.MERGE_ON_READ, marks=pytest.mark.slow),
]


@pytest.fixture(params=TYPES, ids=str)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> OnDisk:
    made = OnDisk(tmp_path / "table", request.param)
    if request.param is TableType.MERGE_ON_READ:
        made.write(range(8), 10)
    return made


def ids_of(frame: DataFrame, condition: Column | str) -> list[str]:
    return sorted(row["id"] for row in frame.where(condition).select("id").collect())


def found(spark: SparkSession, table: OnDisk, condition: Column | str) -> list[str]:
    with statistics_always_used():
        return ids_of(table.lake().snapshot(spark), condition)


CONDITIONS = (
    "n >= 2000 and n < 2011",
    "n between 2000 and 2010 and f > 3",
    "s like 's0020%'",
    "s in ('s002002', 's002012', 'none')",
    "day = date'2026-03-25'",
    "at >= timestamp'2026-03-25 00:00:00Z' and at < timestamp'2026-04-01 00:00:00Z'",
    "local >= timestamp_ntz'2026-03-25 00:00:00' and local < timestamp_ntz'2026-04-01 00:00:00'",
    "amount >= 500.25 and amount < 505.5",
    "id = 'k002'",
    "city = 'city 6'",
    "_hoodie_record_key in ('k002', 'k006')",
    "n = 2002 or n = 2012 or s = 's002006'",
    "not (n < 2000 or n >= 3000)",
)


def test_files_of_other_partitions_are_not_opened(spark: SparkSession, table: OnDisk) -> None:
    frame, other = (table.lake().snapshot(spark) for _ in range(2))
    with statistics_unused():
        expected = {condition: ids_of(frame, condition) for condition in CONDITIONS}
        assert all(expected.values())
    # The first frame keeps its answers.
    frame = table.lake().snapshot(spark)
    table.without("p0", "p1", "p3")
    with statistics_always_used():
        for condition in CONDITIONS:
            assert ids_of(frame, condition) == expected[condition], condition
    with statistics_unused(), pytest.raises(Exception, match=r"(?i)file|not exist"):
        ids_of(other, CONDITIONS[0])


def test_conditions_that_say_nothing_read_all(spark: SparkSession, table: OnDisk) -> None:
    count = len(range(FILES * 8))
    everything = [f"k{key:03}" for key in range(count)]
    for condition in ("f > -1", "n + 1 > 0", "n > 0 or f > -1", "n is not null", "length(s) = 7"):
        assert found(spark, table, condition) == everything, condition
    assert found(spark, table, "n is null") == []
    assert found(spark, table, "n <=> null") == []
    assert found(spark, table, "n <=> 2002") in ([], ["k002"])
    frame = table.lake().snapshot(spark)
    assert frame.count() == count
    joined = frame.join(spark.createDataFrame([(2010,)], "n long"), "n").count()
    assert joined == frame.where("n = 2010").count()


def test_a_frame_keeps_to_its_moment(spark: SparkSession, table: OnDisk) -> None:
    """Also where a key has moved on since, by the indexes."""
    frame = table.lake().snapshot(spark).where("id = 'k002'").select("n")
    before = frame.collect()
    table.write([2], 90_000)
    with statistics_always_used():
        assert frame.collect() == before
        assert found(spark, table, "n > 90000") == ["k002"]


def test_what_goes_wrong_leaves_out_nothing(
    spark: SparkSession, table: OnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = found(spark, table, "n >= 2000 and n < 3000")

    def broken(*_: Any) -> None:
        raise RuntimeError("no answer")

    monkeypatch.setattr(slice_choice, "slices_with_rows", broken)
    assert found(spark, table, "n >= 2000 and n < 3000") == expected
    monkeypatch.undo()
    for info in (table.path / ".hoodie/metadata/column_stats").iterdir():
        info.write_bytes(b"none")
    _, passed_over = lookups_so_far()
    assert found(spark, table, "n >= 2000 and n < 3000 and f > 1") == expected
    assert lookups_so_far()[1] >= passed_over


def test_a_delete_sees_both_rows_of_a_key(spark: SparkSession, table: OnDisk) -> None:
    """One of both has a record. What is about to be changed is looked for in all files."""
    table.write([2], operation="bulk_insert")
    with statistics_always_used():
        assert table.lake().delete(F.col("id") == "k002", spark=spark).rows_deleted == 2
        assert "k002" not in ids_of(table.lake().snapshot(spark), "part is not null")


def test_a_delete_opens_files_that_have_its_rows(spark: SparkSession, table: OnDisk) -> None:
    """Others of their partition are not there. Of another one a footer of each commit is read, for
    how it stores times."""
    kept = table.lake().to_arrow(["_hoodie_file_name"], "n = 2018 or n = 2022")[0].to_pylist()
    others = [path for path in (table.path / "p2").glob("*.parquet") if path.name not in kept]
    for path in others:
        path.unlink()
    with statistics_always_used():
        for n, small in ((2018, "in_process"), (2022, "spark")):
            options = {**QUIET, "tideline.engine.small": small}
            report = table.lake().delete(F.col("n") == n, spark=spark, options=options)
            assert report.rows_deleted == 1
    assert len(set(kept)) == 1
    assert len(others) == FILES - 1
