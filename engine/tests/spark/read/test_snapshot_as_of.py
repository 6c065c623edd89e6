"""Snapshots of now and of earlier: what is committed is seen, and all of it or an error."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.errors import ConfigError
from tideline.hudi.open_table import open_table
from tideline.hudi.read.point_in_time import parse_point_in_time
from tideline.hudi.table.table_files import TableFiles
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.zone import UTC_ZONE, TimelineZone
from tideline.spark.read.frames import snapshot
from tideline.testing.hand_written_table import HandWrittenTable, instant_time

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
META = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]


def rows(values: dict[int, str]) -> pa.Table:
    return pa.table({"id": list(values), "v": list(values.values())}, schema=SCHEMA)


def read(spark: SparkSession, table: HandWrittenTable, as_of: Any = None) -> dict[int, str]:
    time = instant_time(as_of) if isinstance(as_of, str) and len(as_of) < 14 else as_of
    return {row["id"]: row["v"] for row in snapshot(spark, table.open(), time).collect()}


@pytest.fixture
def table(tmp_path: Path) -> HandWrittenTable:
    """Two file groups, the first rewritten at 2, the second replaced by a third at 3."""
    made = HandWrittenTable.create(tmp_path / "t", SCHEMA)
    made.commit("1", {("", "a-0"): rows({1: "a"}), ("", "b-0"): rows({2: "b"})})
    made.commit("2", {("", "a-0"): rows({1: "A"})})
    made.commit("3", {("", "c-0"): rows({2: "B"})}, replaced={"": ["b-0"]})
    return made


@pytest.mark.spark
def test_every_instant_of_the_history_can_be_read(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    assert read(spark, table) == {1: "A", 2: "B"}
    assert read(spark, table, "3") == {1: "A", 2: "B"}
    assert read(spark, table, "2") == {1: "A", 2: "b"}
    assert read(spark, table, "1") == {1: "a", 2: "b"}
    with pytest.raises(ConfigError, match="its first commit is 20260101000000001"):
        read(spark, table, "20251231235959999")
    assert read(spark, table, dt.datetime(2026, 1, 1, 0, 0, 0, 2000)) == {1: "A", 2: "b"}


@pytest.mark.spark
def test_the_meta_columns_come_first_as_in_hudis_reads(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    assert snapshot(spark, table.open()).columns == [*META, "id", "v"]
    table.set_properties({"hoodie.populate.meta.fields": "false"})
    assert snapshot(spark, table.open()).columns == ["id", "v"]


@pytest.mark.spark
def test_what_is_not_completed_does_not_exist(spark: SparkSession, table: HandWrittenTable) -> None:
    table.commit("4", {("", "a-0"): rows({1: "?"}), ("", "d-0"): rows({9: "?"})}, completed=False)
    table.commit(
        "5",
        {
            ("", "d-0"): rows({}),
        },
        replaced={"": ["c-0"]},
        completed=False,
    )
    assert read(spark, table) == {1: "A", 2: "B"}


@pytest.mark.spark
def test_a_frame_keeps_to_the_moment_it_was_made(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    before = snapshot(spark, table.open())
    table.commit("4", {("", "a-0"): rows({1: "new"})})
    assert {row["v"] for row in before.collect()} == {"A", "B"}
    assert read(spark, table)[1] == "new"


@pytest.mark.spark
def test_an_earlier_snapshot_has_the_columns_of_its_time(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    wider = pa.schema([*SCHEMA, ("w", pa.int32())])
    added = pa.table({"id": [3], "v": ["c"], "w": [1]}, schema=wider)
    table.commit("4", {("", "e-0"): added}, schema=wider)
    assert snapshot(spark, table.open()).columns[-1] == "w"
    assert snapshot(spark, table.open(), instant_time("3")).columns[-1] == "v"


@pytest.mark.spark
def test_a_table_without_commits_is_empty_and_has_its_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = snapshot(spark, HandWrittenTable.create(tmp_path / "t", SCHEMA).open())
    assert frame.columns == [*META, "id", "v"]
    assert frame.collect() == []
    bare = HandWrittenTable.create(tmp_path / "bare", SCHEMA)
    bare.set_properties({"hoodie.table.create.schema": None})
    assert snapshot(spark, bare.open()).columns == META


@pytest.mark.spark
def test_an_emptied_table_is_empty(spark: SparkSession, table: HandWrittenTable) -> None:
    table.commit("4", {}, replaced={"": ["a-0", "c-0"]})
    assert read(spark, table) == {}
    assert snapshot(spark, table.open()).columns == [*META, "id", "v"]


@pytest.mark.spark
def test_a_cleaned_version_makes_its_instants_unreadable_and_no_others(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    table.clean("4", ["a-0_0-1-0_20260101000000001.parquet"])
    with pytest.raises(ConfigError, match="a-0 of 20260101000000001 was cleaned") as refused:
        read(spark, table, "1")
    assert "instant=20260101000000001" in str(refused.value)
    assert read(spark, table, "2") == {1: "A", 2: "b"}


@pytest.mark.spark
def test_a_cleaned_file_group_makes_the_instants_before_its_end_unreadable(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    table.clean("4", ["b-0_0-1-0_20260101000000001.parquet"])
    with pytest.raises(ConfigError, match="b-0 was replaced at 20260101000000003 and cleaned"):
        read(spark, table, "2")
    assert read(spark, table, "3") == {1: "A", 2: "B"}


@pytest.mark.spark
def test_a_file_group_born_and_gone_later_is_not_missed(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    [path] = table.commit("4", {("", "d-0"): rows({4: "d"})})
    table.commit("5", {}, replaced={"": ["d-0"]})
    table.clean("6", [path])
    assert read(spark, table, "3") == {1: "A", 2: "B"}
    with pytest.raises(ConfigError, match="d-0 was replaced"):
        read(spark, table, "4")


@pytest.mark.spark
def test_instants_before_the_archive_are_refused_rather_than_guessed(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    table.archive("1")
    assert read(spark, table) == {1: "A", 2: "B"}
    assert read(spark, table, "2") == {1: "A", 2: "b"}
    with pytest.raises(ConfigError, match="before 20260101000000002 is archived"):
        read(spark, table, "1")


@pytest.mark.spark
def test_a_savepoint_can_be_read_though_its_surroundings_are_archived(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    table.commit("4", {("", "a-0"): rows({1: "new"})})
    table.location.open().put(".hoodie/20260101000000002.savepoint", b"savepoint")
    table.archive("1", "3")
    assert read(spark, table, "2") == {1: "A", 2: "b"}
    with pytest.raises(ConfigError, match="is archived"):
        read(spark, table, "3")


class FilesCleanedWhileListed(TableFiles):
    """A real table that is committed to and cleaned between two of the reader's requests."""

    cleaned: HandWrittenTable | None = None

    def read_view(self, *arguments: Any, **keywords: Any) -> Any:
        if self.cleaned is not None:
            writer, type(self).cleaned = self.cleaned, None
            writer.commit("4", {("", "a-0"): rows({1: "newest"})})
            writer.clean("5", ["a-0_0-1-0_20260101000000002.parquet"])
        return super().read_view(*arguments, **keywords)


@pytest.mark.spark
def test_a_clean_during_planning_loses_no_rows(
    spark: SparkSession, table: HandWrittenTable
) -> None:
    FilesCleanedWhileListed.cleaned = table
    opened = open_table(table.location)
    opened.files.__class__ = FilesCleanedWhileListed
    found = {row["id"]: row["v"] for row in snapshot(spark, opened).collect()}
    assert found == {1: "newest", 2: "B"}


@pytest.mark.parametrize(
    ("given", "timezone", "instant"),
    [
        ("20240105100000123", "UTC", "20240105100000123"),
        (" 20240105100000 ", "UTC", "20240105100000"),
        ("2024-01-05", "UTC", "20240105000000000"),
        ("2024-01-05 10:00:00", "Asia/Kolkata", "20240105100000000"),
        ("2024-01-05T10:00:00Z", "Asia/Kolkata", "20240105153000000"),
        ("2024-01-05T10:00:00.5+01:00", "America/Los_Angeles", "20240105010000500"),
        ("1969-12-31T23:59:59.5Z", "UTC", "19691231235959500"),
        ("2024-01-05T10:00:00.5", "UTC", "20240105100000500"),
        ("2024-01-05T10:00:00.123+01:00", "UTC", "20240105090000123"),
        ("2024-01-05T10:00:00Z", "UTC", "20240105100000000"),
        (dt.datetime(2024, 1, 5, 10, tzinfo=dt.UTC), "UTC", "20240105100000000"),
        (dt.date(2024, 1, 5), "Asia/Kolkata", "20240105000000000"),
        ("000", "UTC", "00000000000000000"),
    ],
)
def test_times_are_understood_as_people_write_them(
    given: str | dt.datetime, timezone: str, instant: str
) -> None:
    assert parse_point_in_time(given, lambda: TimelineZone.parse(timezone)).value == instant


@pytest.mark.parametrize("given", ["yesterday", "", "2024-13-01", 1704448800000, True, 1.5])
def test_what_is_no_time_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="not a time"):
        parse_point_in_time(given, lambda: UTC_ZONE)


def test_pending_clustering_hides_nothing(table: HandWrittenTable) -> None:
    table.begin("4", Action.REPLACECOMMIT)
    view = table.open().files.view(table.open().timeline())
    assert [file.file_id for file in view.latest_base_files("")] == ["a-0", "c-0"]
