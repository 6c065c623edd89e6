"""Reads of merge-on-read tables: merged, read-optimised, as of an instant, incremental, pruned."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tideline.errors import ConfigError, CorruptTableError
from tideline.formats.avro import encode_container
from tideline.hudi.file_group.file_slice_merge import SliceContext
from tideline.hudi.log.log_format import LogFormat
from tideline.hudi.read.incremental import plan_incremental
from tideline.hudi.read.slice_rows import SliceTask
from tideline.hudi.read.snapshot import plan_read_optimized, plan_snapshot
from tideline.hudi.table.properties import TableType
from tideline.hudi.timeline.instant import Action
from tideline.lake_table import LakeTable
from tideline.spark.arrow_types import arrow_to_spark, spark_to_arrow
from tideline.spark.read.data_source import register
from tideline.spark.read.file_slice_scan import slice_reader
from tideline.spark.task_errors import raised_errors
from tideline.testing.hand_written_table import HandWrittenTable, instant_time

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("n", pa.int32())])
DAYS = ("d1", "d2", "d3")


def file_id(day: str) -> str:
    return f"1111111{day[1]}-2222-3333-4444-555555555555-0"


def rows(day: str, **values: int) -> pa.Table:
    return pa.table(
        [list(values), [day] * len(values), pa.array(values.values(), pa.int32())], schema=SCHEMA
    )


def daily_table(folder: Path, properties: Mapping[str, str] | None = None) -> HandWrittenTable:
    """Commit 1 writes a=1, b=1 into each of three days, without a log so far."""
    table = HandWrittenTable.create(
        folder,
        SCHEMA,
        partition_by=("day",),
        table_type=TableType.MERGE_ON_READ,
        ordering=("n",),
    )
    table.set_properties(properties or {})
    table.commit("1", {(day, file_id(day)): rows(day, a=1, b=1) for day in DAYS})
    return table


def updated_table(folder: Path, properties: Mapping[str, str] | None = None) -> HandWrittenTable:
    """Then 2 updates a and adds c in d1 and d2, 3 deletes b in d2."""
    table = daily_table(folder, properties)
    table.append("2", {(day, file_id(day)): rows(day, a=2, c=2) for day in DAYS[:2]})
    table.append("3", {}, {("d2", file_id("d2")): ["b"]})
    return table


def values(frame: DataFrame) -> list[str]:
    return sorted(f"{row['day']}:{row['id']}={row['n']}" for row in frame.collect())


def lake(table: HandWrittenTable) -> LakeTable:
    return LakeTable.open(table.location.uri)


NOW = ["d1:a=2", "d1:b=1", "d1:c=2", "d2:a=2", "d2:c=2", "d3:a=1", "d3:b=1"]


@pytest.mark.parametrize("meta", [True, False])
def test_a_snapshot_merges_slices_with_logs_and_reads_the_others(
    spark: SparkSession, tmp_path: Path, meta: bool
) -> None:
    properties = {"hoodie.populate.meta.fields": str(meta).lower()}
    table = updated_table(tmp_path, properties=properties)
    assert values(lake(table).snapshot(spark)) == NOW


def test_avro_and_parquet_logs_read_the_same(spark: SparkSession, tmp_path: Path) -> None:
    table = daily_table(tmp_path)
    group = ("d1", file_id("d1"))
    table.append("2", {group: rows("d1", a=2)}, log_format=LogFormat.AVRO)
    table.append("3", {group: rows("d1", a=1, b=3)}, log_format=LogFormat.PARQUET)
    frame = lake(table).snapshot(spark).where("day = 'd1'")
    assert values(frame) == ["d1:a=2", "d1:b=3"]


def test_a_read_optimised_read_leaves_logs_out(spark: SparkSession, tmp_path: Path) -> None:
    table = updated_table(tmp_path)
    expected = [f"{day}:{key}=1" for day in DAYS for key in "ab"]
    assert values(lake(table).read_optimized(spark)) == expected


def test_a_slice_without_a_base_file_is_its_log(spark: SparkSession, tmp_path: Path) -> None:
    table = daily_table(tmp_path)
    table.append("2", {("d4", file_id("d4")): rows("d4", x=1, y=1)})
    table.append("3", {("d4", file_id("d4")): rows("d4", x=2)}, {("d4", file_id("d4")): ["y"]})
    assert values(lake(table).snapshot(spark).where("day = 'd4'")) == ["d4:x=2"]
    assert lake(table).read_optimized(spark).where("day = 'd4'").count() == 0


def test_meta_columns_show_which_commit_wrote_a_row(spark: SparkSession, tmp_path: Path) -> None:
    frame = lake(updated_table(tmp_path)).snapshot(spark).where("day = 'd1'")
    written = {row["id"]: row["_hoodie_commit_time"] for row in frame.collect()}
    assert written == {
        "a": str(instant_time("2")),
        "b": str(instant_time("1")),
        "c": str(instant_time("2")),
    }


def test_as_of_shows_the_table_before_later_logs(spark: SparkSession, tmp_path: Path) -> None:
    table = lake(updated_table(tmp_path))
    assert len(values(table.snapshot(spark, as_of=str(instant_time("1"))))) == 6
    before_delete = values(table.snapshot(spark, as_of=str(instant_time("2"))))
    assert before_delete == sorted([*NOW, "d2:b=1"])
    assert values(table.snapshot(spark, as_of=str(instant_time("3")))) == NOW


def test_a_table_as_of_an_instant_before_a_compaction_reads_the_old_slice(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = updated_table(tmp_path)
    table.commit("4", {("d1", file_id("d1")): rows("d1", a=2, b=1, c=2)})
    table.append("5", {("d1", file_id("d1")): rows("d1", a=5)})
    assert values(lake(table).snapshot(spark)) == sorted(["d1:a=5", *NOW[1:]])
    assert values(lake(table).snapshot(spark, as_of=str(instant_time("3")))) == NOW


def test_incremental_reads_give_the_rows_as_the_range_left_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = updated_table(tmp_path)
    table.append("4", {("d1", file_id("d1")): rows("d1", a=4)})
    times = {number: str(instant_time(number)) for number in "1234"}
    reader = lake(table)
    assert values(reader.incremental(spark, times["1"])) == ["d1:a=4", "d1:c=2", "d2:a=2", "d2:c=2"]
    assert values(reader.incremental(spark, times["1"], times["2"])) == [
        "d1:a=2",
        "d1:c=2",
        "d2:a=2",
        "d2:c=2",
    ]
    assert values(reader.incremental(spark, times["3"])) == ["d1:a=4"]
    assert values(reader.incremental(spark, times["4"])) == []
    assert len(values(reader.incremental(spark, "0"))) == 7


def test_incremental_reads_across_a_compaction_find_the_rows_by_their_own_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = updated_table(tmp_path)
    compacted = rows("d1", a=2, b=1, c=2)
    origin = pa.array([str(instant_time(number)) for number in "212"])
    table.commit(
        "4", {("d1", file_id("d1")): compacted.append_column("_hoodie_commit_time", origin)}
    )
    reader = lake(table)
    after_first = values(reader.incremental(spark, str(instant_time("1"))))
    assert after_first == ["d1:a=2", "d1:c=2", "d2:a=2", "d2:c=2"]
    assert values(reader.incremental(spark, str(instant_time("3")))) == []


def test_pending_deltacommits_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    table = updated_table(tmp_path)
    group = ("d1", file_id("d1"))
    table.append("4", {group: rows("d1", a=9, z=9)}, completed=False)
    assert values(lake(table).snapshot(spark)) == NOW
    table.append("5", {group: rows("d1", b=5)})
    assert values(lake(table).snapshot(spark)) == sorted({*NOW, "d1:b=5"} - {"d1:b=1"})
    assert values(lake(table).incremental(spark, str(instant_time("3")))) == []


def test_logs_on_a_pending_compaction_go_on_top_of_the_slice_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = updated_table(tmp_path)
    group = ("d1", file_id("d1"))
    operation: dict[str, Any] = {
        "baseInstantTime": str(instant_time("1")),
        "deltaFilePaths": [],
        "dataFilePath": None,
        "fileId": group[1],
        "partitionPath": "d1",
        "metrics": None,
        "bootstrapFilePath": None,
    }
    plan = encode_container("HoodieCompactionPlan", {"operations": [operation], "version": 2})
    table.begin("4", Action.COMPACTION, plan)
    table._versions[group] = str(instant_time("4"))
    table.append("5", {group: rows("d1", b=5)})
    assert values(lake(table).snapshot(spark)) == sorted({*NOW, "d1:b=5"} - {"d1:b=1"})
    assert "d1:b=1" in values(lake(table).read_optimized(spark))


def test_filters_on_partition_columns_leave_slices_unread(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = updated_table(tmp_path)
    for log in (tmp_path / "d2").glob(".*.log.*"):
        log.unlink()
    (damaged,) = (tmp_path / "d1").glob(".*.log.*")
    reader = lake(table)
    damaged.write_bytes(b"no log at all")
    with pytest.raises(CorruptTableError, match=r"does not begin with a block.*path=d1/\."):
        collect(reader.snapshot(spark))
    for condition in ("day = 'd3'", "day > 'd2'", "day in ('d3', 'd9')", "day like '%3'"):
        assert values(reader.snapshot(spark).where(condition)) == ["d3:a=1", "d3:b=1"]
    with pytest.raises(CorruptTableError):
        collect(reader.snapshot(spark).where("n = 1"))


def collect(frame: DataFrame) -> None:
    with raised_errors():
        frame.collect()


def test_only_the_columns_of_a_query_are_asked_of_the_merge(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = lake(updated_table(tmp_path)).snapshot(spark)
    plan = str(frame.select("n")._jdf.queryExecution().executedPlan().toString())
    assert "FileSliceRelation" in plan
    assert "ReadSchema: struct<n:int>" in plan
    assert sorted(row["n"] for row in frame.select("n").collect()) == [1, 1, 1, 2, 2, 2, 2]
    assert frame.count() == 7
    assert frame.agg(F.max("id")).collect()[0][0] == "c"
    assert frame.select(F.lit(1)).where("day = 'd2'").count() == 2


def test_a_task_reads_no_other_columns_and_is_small(tmp_path: Path) -> None:
    table = updated_table(tmp_path).open()
    timeline = table.timeline()
    schema = table.schemas.newest(timeline)
    assert schema is not None
    context = SliceContext.of(table, timeline, schema)
    (file_slice,) = table.files.view(timeline).latest_slices("d1")
    task = pickle.loads(pickle.dumps(SliceTask.of(file_slice, None)))
    reader = pickle.loads(pickle.dumps(slice_reader(context)))
    assert len(pickle.dumps(task)) < 2000
    (first, *_) = reader.rows(table.store, task, ["n"])
    assert first.schema.names == ["n"]
    assert reader.target == spark_to_arrow(arrow_to_spark(context.full_schema))


def test_partition_columns_that_files_leave_out_come_from_the_path(
    spark: SparkSession, tmp_path: Path
) -> None:
    properties = {"hoodie.datasource.write.drop.partition.columns": "true"}
    table = daily_table(tmp_path, properties=properties)
    frame = lake(table).snapshot(spark)
    assert sorted({row["day"] for row in frame.collect()}) == list(DAYS)
    table.append("2", {("d1", file_id("d1")): rows("d1", a=2)})
    assert "d1:a=2" in values(lake(table).snapshot(spark))
    assert lake(table).snapshot(spark).select("day").where("day = 'd1'").count() == 2


@pytest.mark.slow
def test_the_data_source_merges_and_filters_by_commit(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    table = updated_table(tmp_path)
    reader = spark.read.format("tideline")
    assert values(reader.load(table.location.uri)) == NOW
    as_of = reader.option("as_of", str(instant_time("1"))).load(table.location.uri)
    assert as_of.count() == 6
    changed = spark.read.format("tideline").option("after", str(instant_time("1")))
    assert values(changed.load(table.location.uri)) == ["d1:a=2", "d1:c=2", "d2:a=2", "d2:c=2"]
    assert changed.load(table.location.uri).select("id").count() == 4


def test_a_range_whose_slices_were_cleaned_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = updated_table(tmp_path)
    table.commit("4", {("d2", file_id("d2")): rows("d2", a=2, c=2)})
    old = [path.relative_to(tmp_path).as_posix() for path in (tmp_path / "d2").iterdir()]
    old = [path for path in old if str(instant_time("1")) in path]
    assert len(old) == 3
    table.clean("5", old)
    reader = lake(table)
    with pytest.raises(ConfigError, match="cleaned"):
        reader.incremental(spark, str(instant_time("1")), str(instant_time("3")))
    with pytest.raises(ConfigError, match="cleaned"):
        reader.snapshot(spark, as_of=str(instant_time("3")))


@pytest.mark.parametrize("removed", ["base file", "a log", "nothing yet"])
def test_a_slice_that_is_being_cleaned_is_not_read_in_part(tmp_path: Path, removed: str) -> None:
    """A clean deletes file by file, and may have died between two."""
    table = updated_table(tmp_path)
    table.commit("4", {("d2", file_id("d2")): rows("d2", a=2, c=2)})
    names = sorted(path.name for path in (tmp_path / "d2").iterdir())
    old = [name for name in names if str(instant_time("1")) in name]
    paths = [
        {"filePath": f"{table.location.uri}/d2/{name}", "isBootstrapBaseFile": False}
        for name in old
    ]
    plan = {
        "earliestInstantToRetain": None,
        "lastCompletedCommitTimestamp": "",
        "policy": "KEEP_LATEST_COMMITS",
        "version": 2,
        "filePathsToBeDeletedPerPartition": {"d2": paths},
    }
    table.begin("5", Action.CLEAN, encode_container("HoodieCleanerPlan", plan))
    if removed != "nothing yet":
        (tmp_path / "d2" / old[-1 if removed == "base file" else 0]).unlink()
    opened = table.open()
    with pytest.raises(ConfigError, match="cleaned"):
        plan_snapshot(opened, str(instant_time("3")))
    with pytest.raises(ConfigError, match="cleaned"):
        plan_incremental(opened, str(instant_time("1")), str(instant_time("3")))
    assert len(plan_snapshot(opened, str(instant_time("4"))).files) == 2
    assert plan_incremental(opened, str(instant_time("3"))).files


@pytest.mark.parametrize("started", [False, True])
def test_a_broken_plan_of_a_clean_matters_once_it_may_have_deleted_files(
    tmp_path: Path, started: bool
) -> None:
    table = updated_table(tmp_path)
    timelines = table.open().timelines
    instant = timelines.create_requested(instant_time("4"), Action.CLEAN, b"not a plan")
    if started:
        timelines.to_inflight(instant)
        with pytest.raises(CorruptTableError, match="clean cannot be read"):
            plan_snapshot(table.open(), str(instant_time("3")))
    else:
        assert len(plan_snapshot(table.open(), str(instant_time("3"))).slices) == 2
    assert len(plan_snapshot(table.open()).slices) == 2


@pytest.mark.parametrize("body", [b"not a plan", b"Obj\x01"])
def test_a_broken_plan_of_a_clustering_stops_no_reader(tmp_path: Path, body: bytes) -> None:
    """Until it completes, nothing of a clustering is anything to a reader."""
    table = updated_table(tmp_path)
    table.begin("4", Action.REPLACECOMMIT, body)
    table.append("5", {("d1", file_id("d1")): rows("d1", b=5)})
    opened = table.open()
    assert len(plan_snapshot(opened).slices) == 2
    assert len(plan_snapshot(opened, str(instant_time("2"))).slices) == 2
    assert len(plan_read_optimized(opened).files) == 3
    # It may be an overwrite's, whose rows are still to come: the range ends before it.
    scan = plan_incremental(opened, str(instant_time("1")))
    assert scan.commits is not None
    assert scan.commits.until == instant_time("3")
    with pytest.raises(CorruptTableError, match=r"path=\.hoodie/"):
        opened.files.view(opened.timeline())


def test_widened_and_added_columns_are_read_from_old_files_and_blocks(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = updated_table(tmp_path)
    wider = pa.schema(
        [("id", pa.string()), ("day", pa.string()), ("n", pa.int64()), ("note", pa.string())]
    )
    table.schema = wider
    added = pa.table([["a"], ["d2"], pa.array([2**40]), ["new"]], schema=wider)
    table.append("4", {("d2", file_id("d2")): added})
    frame = lake(table).snapshot(spark)
    assert json.loads(frame.schema.json())["fields"][-1]["name"] == "note"
    found = {(row["day"], row["id"]): (row["n"], row["note"]) for row in frame.collect()}
    assert found["d2", "a"] == (2**40, "new")
    assert found["d1", "c"] == (2, None)
    assert len(found) == 7
