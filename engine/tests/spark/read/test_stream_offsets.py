"""Offsets of a stream as Spark stores them, without Spark: nothing is passed over or goes back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles
from pyspark.sql.types import LongType, StructField, StructType

from tideline.hudi.read.point_in_time import BEGINNING
from tideline.hudi.table.table_config import TABLE_VERSION
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.lake_table import LakeTable
from tideline.spark.read.source_options import SourceOptions
from tideline.spark.read.stream_source import TidelineStreamReader

ALL = ReadAllAvailable()
COLUMNS = StructType([StructField("id", LongType())])
START = {"after": str(BEGINNING)}


@pytest.fixture(params=[6, TABLE_VERSION])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTable:
    return LakeTable.create(str(tmp_path / "t"), record_key="id", table_version=request.param)


def write(table: LakeTable, key: int) -> None:
    table.write(pa.table({"id": [key]}), "insert")


def reader(table: LakeTable, **options: str) -> TidelineStreamReader:
    return TidelineStreamReader(SourceOptions.of({"path": table.uri, **options}), COLUMNS)


def rows(table: LakeTable, start: dict[str, str], end: dict[str, str]) -> list[int]:
    stream = reader(table)
    batches = [batch for part in stream.partitions(start, end) for batch in stream.read(part)]
    return sorted(key for batch in batches for key in batch.column("id").to_pylist())


def test_batches_follow_each_other_without_a_gap(table: LakeTable) -> None:
    write(table, 1)
    stream = reader(table)
    first = stream.latestOffset(START, ALL)
    assert first["after"] == str(BEGINNING)
    assert stream.latestOffset(first, ALL) == first
    write(table, 2)
    second = stream.latestOffset(first, ALL)
    assert set(second) == {"until"}
    assert (rows(table, START, first), rows(table, first, second)) == ([1], [2])
    assert rows(table, second, second) == []


def test_a_first_batch_that_runs_again_begins_where_it_did(table: LakeTable) -> None:
    write(table, 1)
    first = reader(table).latestOffset(START, ALL)
    moved = {"after": first["until"]}
    assert rows(table, moved, first) == [1], "what `after` means by now does not matter"


def test_offsets_do_not_go_back_with_a_table_that_was_restored(table: LakeTable) -> None:
    write(table, 1)
    later = {"until": str(InstantTime("99991231235959999"))}
    assert reader(table).latestOffset(later, ALL) == later


def test_a_query_of_what_is_available_ends_where_it_began(table: LakeTable) -> None:
    write(table, 1)
    stream = reader(table)
    stream.prepareForTriggerAvailableNow()
    end = stream.latestOffset(START, ALL)
    write(table, 2)
    assert stream.latestOffset(end, ALL) == end
    assert reader(table).latestOffset(end, ALL) != end


@pytest.mark.parametrize("limit", ["maxCommitsPerTrigger", "maxBytesPerTrigger"])
def test_a_limit_takes_one_commit_at_least_and_no_more_than_it_says(
    limit: str, table: LakeTable
) -> None:
    for key in (1, 2, 3):
        write(table, key)
    stream, offset, batches = reader(table, **{limit: "1"}), START, []
    for _ in range(3):
        end = stream.latestOffset(offset, ReadMaxFiles(1))
        batches.append(rows(table, offset, end))
        offset = end
    assert batches == [[1], [2], [3]]
    assert stream.latestOffset(offset, ReadMaxFiles(1)) == offset


def test_a_write_that_is_pending_is_waited_for_where_instants_say_no_completion(
    tmp_path: Path,
) -> None:
    table = LakeTable.create(str(tmp_path / "t"), record_key="id", table_version=6)
    write(table, 1)
    first = reader(table).latestOffset(START, ALL)
    write(table, 2)
    (instant, _) = table.timeline().completed().instants
    pending = str(int(str(instant.time)) + 1)
    for ending in ("commit.requested", "inflight"):
        (tmp_path / f"t/.hoodie/{pending}.{ending}").write_bytes(b"")
    assert reader(table).latestOffset(first, ALL) == first
