"""Tables that Hudi made here read on Spark to the rows that Hudi reads, in every way of reading."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tideline.errors import UnsupportedTableError
from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.spark.read.data_source import register
from tideline.spark.read.frames import incremental, read_optimized, snapshot
from tideline.storage.location import StoreLocation
from tideline.testing.stand_in_tables import answer, recipes, stand_in
from tideline.testing.table_model import canonical_with_meta

pytestmark = [pytest.mark.spark, pytest.mark.interop]

READABLE = [name for name, recipe in recipes().items() if recipe.version == 6]


def table_of(name: str) -> HoodieTable:
    return open_table(StoreLocation.of(stand_in(name)))


@pytest.mark.slow_with("merge_on_read")
@pytest.mark.parametrize("name", READABLE)
def test_a_snapshot_has_the_rows_that_hudi_reads(spark: SparkSession, name: str) -> None:
    table = table_of(name)
    rows, expected = snapshot(spark, table).toArrow(), answer(name)
    if not table.config.populate_meta_fields:
        keys = sorted(zip(expected["id"].to_pylist(), expected["ts"].to_pylist(), strict=True))
        assert sorted(zip(rows["id"].to_pylist(), rows["ts"].to_pylist(), strict=True)) == keys
        return
    assert canonical_with_meta(rows) == canonical_with_meta(expected)


def test_an_incremental_read_from_the_beginning_is_the_snapshot(spark: SparkSession) -> None:
    for name in ("copy_on_write", "rolled_back"):
        rows = incremental(spark, table_of(name), "0").toArrow()
        assert canonical_with_meta(rows) == canonical_with_meta(answer(name))


def test_without_meta_columns_there_is_no_incremental_read(spark: SparkSession) -> None:
    with pytest.raises(UnsupportedTableError, match="without meta columns"):
        incremental(spark, table_of("without_meta_columns"), "0")


def test_a_table_as_of_its_first_commit_has_only_rows_of_that_commit(spark: SparkSession) -> None:
    table = table_of("overwritten")
    first = table.timeline().completed().first()
    assert first is not None
    times = snapshot(spark, table, first.time).select("_hoodie_commit_time").distinct().collect()
    assert [row[0] for row in times] == [str(first.time)]


@pytest.mark.slow
def test_the_data_source_reads_the_same_rows(spark: SparkSession) -> None:
    register(spark)
    rows = spark.read.format("tideline").load(str(stand_in("merge_on_read"))).toArrow()
    found = sorted(zip(rows["id"].to_pylist(), rows["ts"].to_pylist(), strict=True))
    expected = answer("merge_on_read")
    keys = zip(expected["id"].to_pylist(), expected["ts"].to_pylist(), strict=True)
    assert found == sorted(keys)


def test_a_read_optimised_read_has_what_the_base_files_hold(spark: SparkSession) -> None:
    table = table_of("merge_on_read")
    view = table.files.view(table.timeline())
    stored = [
        key
        for partition in view.partitions
        for file in view.latest_base_files(partition)
        for key in pq.read_table(stand_in("merge_on_read") / file.path)["id"].to_pylist()
    ]
    rows = read_optimized(spark, table).toArrow()
    assert sorted(rows["id"].to_pylist()) == sorted(stored)
    assert set(answer("merge_on_read")["id"].to_pylist()) < set(stored), "a log deletes a row"
