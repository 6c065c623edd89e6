"""Tables that Hudi wrote read to the rows others read from them."""

from __future__ import annotations

import json
from functools import cache

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tideline.errors import UnsupportedTableError
from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.spark.read.data_source import register
from tideline.spark.read.frames import incremental, read_optimized, snapshot
from tideline.storage.location import StoreLocation
from tideline.testing.fixtures import FIXTURES, canonical_rows, expected, fixture_table

pytestmark = [pytest.mark.spark, pytest.mark.fixtures, pytest.mark.slow]

LOGICAL_TYPES = "hudi-spark.trips_logical_types_json_cow_read_v6/data"


@cache
def hudi_tables() -> dict[str, dict[str, object]]:
    """What `expected.json` says of every Hudi table; nothing where the fixtures are absent."""
    file = FIXTURES / "expected.json"
    if not file.is_file():
        return {}
    tables = json.loads(file.read_text(encoding="utf-8"))["tables"]
    return {path: entry for path, entry in tables.items() if entry.get("format") == "hudi"}


def readable_tables(*table_types: str) -> list[str]:
    """Version 6 tables with a timeline of their own and an answer to compare with."""
    return [
        path
        for path, entry in hudi_tables().items()
        if entry.get("table_version") == "6"
        and entry.get("table_type") in table_types
        and "core-testdata" not in path
    ]


COPY_ON_WRITE = readable_tables("COPY_ON_WRITE")
MERGE_ON_READ = readable_tables("MERGE_ON_READ")


def table_of(path: str) -> HoodieTable:
    return open_table(StoreLocation.of(fixture_table(path)))


def test_there_are_real_tables_to_read() -> None:
    fixture_table("hudi-rs.cow.v6_nonpartitioned/data/v6_nonpartitioned")
    assert len(COPY_ON_WRITE) >= 5
    assert len(MERGE_ON_READ) >= 12


@pytest.mark.parametrize("path", COPY_ON_WRITE + MERGE_ON_READ)
def test_a_snapshot_has_the_expected_rows(spark: SparkSession, path: str) -> None:
    answer = expected(path)["expected"]
    rows = snapshot(spark, table_of(path)).toArrow()
    assert rows.num_rows == answer["rows"]
    if answer["sha256_user_columns"]:
        _, lines = canonical_rows().rows(rows)
        assert canonical_rows().digest(lines) == answer["sha256_user_columns"]


@pytest.mark.parametrize("path", COPY_ON_WRITE + MERGE_ON_READ)
def test_an_incremental_read_from_the_beginning_is_the_snapshot(
    spark: SparkSession, path: str
) -> None:
    table = table_of(path)
    if not table.config.populate_meta_fields:
        with pytest.raises(UnsupportedTableError, match="without meta columns"):
            incremental(spark, table, "0")
        return
    _, whole = canonical_rows().rows(snapshot(spark, table).toArrow(), meta=True)
    _, rows = canonical_rows().rows(incremental(spark, table, "0").toArrow(), meta=True)
    assert rows == whole


@pytest.mark.parametrize("path", COPY_ON_WRITE)
def test_the_table_as_of_its_first_commit_has_only_rows_of_that_commit(
    spark: SparkSession, path: str
) -> None:
    table = table_of(path)
    first = table.timeline().completed().first()
    assert first is not None
    frame = snapshot(spark, table, first.time)
    assert frame.count() > 0
    if table.config.populate_meta_fields:
        assert {row[0] for row in frame.select("_hoodie_commit_time").collect()} == {
            str(first.time)
        }


def test_logical_types_that_hudi_labelled_wrongly_are_repaired(spark: SparkSession) -> None:
    fields = "ts_millis", "ts_micros", "local_ts_millis", "local_ts_micros", "event_date"
    frame = snapshot(spark, table_of(LOGICAL_TYPES))
    texts = frame.selectExpr(*[f"cast({name} as string)" for name in fields]).distinct().collect()
    years = [{row[position][:4] for row in texts} for position in range(len(fields))]
    assert all("1980" < year < "2040" for found in years for year in found), texts
    assert all(row["local_ts_micros"].startswith("2017-07-07 07:07:0") for row in texts)


@pytest.mark.parametrize("path", MERGE_ON_READ)
def test_the_data_source_reads_the_same_rows(spark: SparkSession, path: str) -> None:
    register(spark)
    rows = spark.read.format("tideline").load(str(fixture_table(path))).toArrow()
    answer = expected(path)["expected"]
    _, lines = canonical_rows().rows(rows)
    assert canonical_rows().digest(lines) == answer["sha256_user_columns"]


@pytest.mark.parametrize("path", MERGE_ON_READ)
def test_a_read_optimised_read_has_what_the_base_files_hold(spark: SparkSession, path: str) -> None:
    table = table_of(path)
    view = table.files.view(table.timeline())
    stored = sum(
        pq.read_metadata(fixture_table(path) / file.path).num_rows
        for partition in view.partitions
        for file in view.latest_base_files(partition)
    )
    assert read_optimized(spark, table).count() == stored


def test_deleted_rows_show_only_where_logs_are_left_out(spark: SparkSession) -> None:
    table = table_of("hudi-upgrade.mor-tables.hudi-v6-table-mor/data/hudi-v6-table-mor")
    gone = read_optimized(spark, table).subtract(snapshot(spark, table))
    assert "id1" in {row["id"] for row in gone.collect()}
    assert snapshot(spark, table).where("id = 'id1' and partition = '2023-01-01'").count() == 0
