"""Rows of a range of commits: none missed, none twice, and an error where files are gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.formats.avro import encode_container
from tideline.hudi.read.incremental import plan_incremental
from tideline.hudi.timeline.instant import Action
from tideline.spark.read.frames import incremental
from tideline.testing.hand_written_table import HandWrittenTable, instant_time

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])

Rows = dict[int, tuple[str, str]]


def rows(values: Rows) -> pa.Table:
    """Rows by id: the value, and the last digits of the commit that wrote it."""
    return pa.table(
        {
            "_hoodie_commit_time": [instant_time(time).value for _, time in values.values()],
            "id": list(values),
            "v": [value for value, _ in values.values()],
        }
    )


def read(spark: SparkSession, table: HandWrittenTable, after: str, until: str | None = None) -> Any:
    frame = incremental(
        spark, table.open(), instant_time(after), None if until is None else instant_time(until)
    )
    return {row["id"]: row["v"] for row in frame.collect()}


@pytest.fixture
def table(tmp_path: Path) -> HandWrittenTable:
    """One file group updated at 2 and 3, another inserted at 2."""
    made = HandWrittenTable.create(tmp_path / "t", SCHEMA)
    made.commit("1", {("", "a-0"): rows({1: ("a", "1"), 2: ("b", "1"), 3: ("c", "1")})})
    made.commit(
        "2",
        {
            ("", "a-0"): rows({1: ("a2", "2"), 2: ("b", "1"), 3: ("c", "1")}),
            ("", "d-0"): rows({4: ("d2", "2")}),
        },
    )
    made.commit("3", {("", "a-0"): rows({1: ("a2", "2"), 2: ("b3", "3")})})
    return made


def test_a_range_has_what_its_commits_wrote_as_the_last_of_them_left_it(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    assert read(spark, table, "0") == {1: "a2", 2: "b3", 4: "d2"}
    assert read(spark, table, "1") == {1: "a2", 2: "b3", 4: "d2"}
    assert read(spark, table, "2") == {2: "b3"}
    assert read(spark, table, "1", "2") == {1: "a2", 4: "d2"}
    assert read(spark, table, "0", "1") == {1: "a", 2: "b", 3: "c"}


def test_ranges_one_after_the_other_make_up_the_whole(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    seen: dict[int, str] = {}
    for after, until in (("0", "1"), ("1", "2"), ("2", "3")):
        seen |= read(spark, table, after, until)
    assert seen == {1: "a2", 2: "b3", 3: "c", 4: "d2"}


def test_only_files_of_the_range_are_read(spark: SparkSession, table: HandWrittenTable) -> None:
    frame = incremental(spark, table.open(), instant_time("2"))
    assert [name.rpartition("/")[2] for name in frame.inputFiles()] == [
        "a-0_0-1-0_20260101000000003.parquet"
    ]


def test_nothing_new_is_an_empty_frame_with_the_columns(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    for after in ("3", "9"):
        frame = incremental(spark, table.open(), instant_time(after))
        assert frame.collect() == []
        assert frame.columns[-2:] == ["id", "v"]
    assert read(spark, table, "1", "1") == {}


def test_text_and_zeros_are_points_in_time(spark: SparkSession, table: HandWrittenTable) -> None:
    frame = incremental(spark, table.open(), "000", "2026-01-01T00:00:00.001")
    assert frame.count() == 3
    with pytest.raises(ConfigError, match="not a time"):
        incremental(spark, table.open(), "last week")


def test_a_pending_write_ends_the_range_before_it(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    """A consumer that read past instant 4 would never see its rows."""
    table.commit("4", {("", "e-0"): rows({5: ("e", "4")})}, completed=False)
    table.commit("5", {("", "f-0"): rows({6: ("f", "5")})})
    assert read(spark, table, "2") == {2: "b3"}
    assert read(spark, table, "2", "5") == {2: "b3"}
    scan = plan_incremental(table.open(), instant_time("2"))
    assert scan.commits is not None
    assert scan.commits.until == instant_time("3")


def test_pending_clustering_does_not_end_the_range(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    plan = encode_container(
        "HoodieRequestedReplaceMetadata",
        {
            "operationType": "CLUSTER",
            "clusteringPlan": {"inputGroups": []},
            "extraMetadata": None,
            "version": 1,
        },
    )
    table.begin("4", Action.REPLACECOMMIT, plan)
    table.commit("5", {("", "f-0"): rows({6: ("f", "5")})})
    assert read(spark, table, "3") == {6: "f"}


def test_a_pending_overwrite_ends_the_range(spark: SparkSession, table: HandWrittenTable) -> None:
    table.begin("4", Action.REPLACECOMMIT)
    table.commit("5", {("", "f-0"): rows({6: ("f", "5")})})
    assert read(spark, table, "3") == {}


def test_rows_overwritten_within_the_range_are_not_in_it(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    table.commit("4", {("", "e-0"): rows({5: ("e", "4")})}, replaced={"": ["a-0", "d-0"]})
    assert read(spark, table, "1") == {5: "e"}
    assert read(spark, table, "1", "3") == {1: "a2", 2: "b3", 4: "d2"}


def test_rows_that_clustering_moved_are_found_by_their_own_commit(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    moved = rows({1: ("a2", "2"), 2: ("b3", "3"), 4: ("d2", "2")})
    table.commit("4", {("", "g-0"): moved}, replaced={"": ["a-0", "d-0"]})
    assert read(spark, table, "2") == {2: "b3"}
    assert read(spark, table, "3") == {}


def test_a_range_whose_files_were_cleaned_is_refused_and_later_ones_are_not(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    table.clean("4", ["a-0_0-1-0_20260101000000002.parquet"])
    with pytest.raises(ConfigError, match="rows up to 20260101000000002 can no longer") as refused:
        read(spark, table, "1", "2")
    assert "a-0_0-1-0_20260101000000002.parquet" in str(refused.value)
    assert read(spark, table, "1", "3") == {1: "a2", 2: "b3", 4: "d2"}
    assert read(spark, table, "1") == {1: "a2", 2: "b3", 4: "d2"}


def test_a_range_that_begins_in_the_archive_is_read_from_the_snapshot(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    table.archive("1", "2")
    assert read(spark, table, "0") == {1: "a2", 2: "b3", 4: "d2"}
    assert read(spark, table, "1") == {1: "a2", 2: "b3", 4: "d2"}
    assert read(spark, table, "2") == {2: "b3"}


def test_a_range_that_begins_in_the_archive_and_ends_before_a_clean_is_refused(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    table.commit("4", {("", "a-0"): rows({1: ("a2", "2"), 2: ("b4", "4")})})
    table.archive("1", "2")
    table.clean("5", ["a-0_0-1-0_20260101000000003.parquet"])
    with pytest.raises(ConfigError, match="a-0 of 20260101000000003 was cleaned"):
        read(spark, table, "1", "3")
    assert read(spark, table, "1") == {1: "a2", 2: "b4", 4: "d2"}


def test_only_partitions_that_were_written_are_listed(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = HandWrittenTable.create(tmp_path / "t", schema, partition_by=("p",))
    table.commit("1", {("x", "a-0"): pa.table({"id": [1], "p": ["x"]}, schema=schema)})
    table.commit("2", {("y", "b-0"): pa.table({"id": [2], "p": ["y"]}, schema=schema)})
    # A partition that cannot be listed at all does no harm.
    table.path("x").rename(tmp_path / "elsewhere")
    frame = incremental(spark, table.open(), instant_time("1"))
    assert [(row["id"], row["p"]) for row in frame.collect()] == [(2, "y")]


def test_sizes_come_from_the_listing(spark: SparkSession, table: HandWrittenTable) -> None:
    """Other writers' commits need not state the size, and Spark skips files without bytes."""
    path = table.path(".hoodie/20260101000000003.commit")
    text = path.read_text()
    path.write_text(text.replace('"fileSizeInBytes" : ', '"fileSizeInBytes" : 0, "was" : '))
    assert read(spark, table, "2") == {2: "b3"}


def test_whole_second_instants_of_old_tables_are_read(spark: SparkSession, tmp_path: Path) -> None:
    table = HandWrittenTable.create(tmp_path / "t", SCHEMA)
    values = {"id": [1], "v": ["old"]}
    table.commit("20210101000000", {("", "a-0"): pa.table(values, schema=SCHEMA)})
    table.commit("1", {("", "b-0"): rows({2: ("new", "1")})})
    opened = table.open()
    assert incremental(spark, opened, "20201231235959").count() == 2
    assert incremental(spark, opened, "20201231235959", "20210101000000").count() == 1
    assert incremental(spark, opened, "20210101000000").count() == 1
    assert incremental(spark, opened, "2020-12-31T23:59:59.500", "2026-01-01").count() == 1


def test_tables_that_cannot_be_read_incrementally_say_so(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    table.set_properties({"hoodie.populate.meta.fields": "false"})
    with pytest.raises(UnsupportedTableError, match="without meta columns"):
        incremental(spark, table.open(), "0")
