"""Writes of DataFrames by key that die, and that others get in the way of: each row comes once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import tideline
from tideline.errors import ConflictError
from tideline.iceberg.services.remove_orphan_files.execute import execute_orphans, plan_orphans
from tideline.iceberg.services.remove_orphan_files.plan import OrphanOptions
from tideline.iceberg.table.file_system_table import FileSystemTable
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.spark.arrow_frame import frame_of
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.stepping_store import Step, SteppingStore

pytestmark = [pytest.mark.spark]

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int64())])
MERGES = {"write.merge.mode": "merge-on-read", "write.delete.mode": "merge-on-read"}
MODES = [
    pytest.param({}, 2, "", marks=pytest.mark.slow, id="files"),
    pytest.param({}, 3, "n", marks=pytest.mark.slow, id="in-order"),
    pytest.param(MERGES, 2, "", marks=pytest.mark.slow, id="deletes"),
    pytest.param(MERGES, 3, "", id="vectors"),
]
BEFORE = [(number, 0) for number in range(6)]
AFTER = [(0, 0), (1, 7), (2, 0), (3, 0), (4, 7), (5, 0), (6, 7)]
TOKEN = "the write"


def rows(*numbers: int, n: int = 0) -> pa.Table:
    return pa.table([list(numbers), [n] * len(numbers)], schema=COLUMNS)


def prepared(folder: Path, properties: dict[str, str], version: int, sort_by: str = "") -> str:
    uri = f"file://{folder}/{uuid.uuid4().hex}"
    table = tideline.create_iceberg(
        uri, COLUMNS, key="id", sort_by=sort_by, format_version=version, properties=properties
    )
    table.write(rows(0, 1, 2))
    table.write(rows(3, 4, 5))
    return uri


def opened(uri: str, store: ObjectStore | None = None) -> IcebergLakeTable:
    return IcebergLakeTable(IcebergTable(FileSystemTable(StoreLocation.of(uri), store=store)))


def found(uri: str) -> list[tuple[int, int]]:
    return sorted((row["id"], row["n"]) for row in opened(uri).to_arrow().to_pylist())


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return frame_of(spark, rows(1, 4, 6, n=7)).repartition(2)


def unlisted(uri: str) -> set[str]:
    """Names of data and delete files that no snapshot has."""
    table = opened(uri)
    plan = plan_orphans(table.table.operations, OrphanOptions(2**62, is_forced=True))
    return {orphan.location for orphan in plan.orphans if "/data/" in orphan.location}


@pytest.mark.parametrize(("properties", "version", "sort_by"), MODES)
def test_a_driver_that_died_anywhere_repeats_the_write_by_its_token(
    frame: DataFrame, tmp_path: Path, properties: dict[str, str], version: int, sort_by: str
) -> None:
    uri = prepared(tmp_path, properties, version, sort_by)
    store = FaultyStore(StoreLocation.of(uri).open())
    opened(uri, store).write(frame, "upsert", token=TOKEN)
    assert found(uri) == AFTER and not unlisted(uri)
    total = len(store.writes)
    last = [FaultPlan(total), FaultPlan(crash_after_write=total)]
    seen = []
    for plan in (FaultPlan(1), FaultPlan(crash_after_write=total // 2), *last):
        uri = prepared(tmp_path, properties, version, sort_by)
        with pytest.raises(SimulatedCrash):
            opened(uri, FaultyStore(StoreLocation.of(uri).open(), plan)).write(
                frame, "upsert", token=TOKEN
            )
        seen.append(found(uri))
        report = opened(uri).write(frame, "upsert", token=TOKEN)
        assert found(uri) == AFTER
        assert report.is_repeat is (seen[-1] == AFTER)
        table = opened(uri)
        execute_orphans(
            table.table.operations,
            plan_orphans(table.table.operations, OrphanOptions(2**62, is_forced=True)),
        )
        assert found(uri) == AFTER and not table.check()
    assert BEFORE in seen and AFTER in seen


@pytest.mark.parametrize(("properties", "version", "sort_by"), MODES)
def test_what_another_writer_changed_first_is_looked_at_again(
    frame: DataFrame, tmp_path: Path, properties: dict[str, str], version: int, sort_by: str
) -> None:
    uri = prepared(tmp_path, properties, version, sort_by)
    done: list[Step] = []

    def before(step: Step) -> None:
        if step.method == "put_if_absent" and step.path.endswith("metadata.json") and not done:
            done.append(step)
            opened(uri).write(rows(4, 6, 9, n=3), "upsert")
            opened(uri).write(rows(0), "delete")

    slower = opened(uri, SteppingStore(StoreLocation.of(uri).open(), before))
    slower.write(frame, "upsert", token=TOKEN)
    assert done
    assert found(uri) == [(1, 7), (2, 0), (3, 0), (4, 7), (5, 0), (6, 7), (9, 3)]
    assert not unlisted(uri), "files of the first try are removed"


def test_a_writer_that_is_never_first_says_so_and_leaves_no_file(
    frame: DataFrame, tmp_path: Path
) -> None:
    uri = prepared(tmp_path, MERGES, 2)

    def before(step: Step) -> None:
        if step.method == "put_if_absent" and step.path.endswith("metadata.json"):
            opened(uri).write(rows(4, n=3), "upsert")

    slower = opened(uri, SteppingStore(StoreLocation.of(uri).open(), before))
    with pytest.raises(ConflictError, match="other writers were always first"):
        slower.write(frame, "delete")
    assert found(uri) == [(n, 3 if n == 4 else 0) for n in range(6)]
    assert not unlisted(uri)


def test_rows_that_cannot_be_computed_leave_nothing(frame: DataFrame, tmp_path: Path) -> None:
    uri = prepared(tmp_path, {}, 2)

    def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if 6 in batch["id"].to_pylist():
                raise RuntimeError("no more")
            yield batch

    with pytest.raises(PySparkException, match="no more"):
        opened(uri).write(frame.mapInArrow(broken, frame.schema), "upsert")
    assert found(uri) == BEFORE and not unlisted(uri)


def test_a_frame_is_computed_once(spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    uri = prepared(tmp_path, {}, 2)
    seen = spark.sparkContext.accumulator(0)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch

    given = frame.mapInArrow(count, frame.schema)
    opened(uri).write(given, "upsert", token=TOKEN)
    assert opened(uri).write(given, "upsert", token=TOKEN).is_repeat
    assert seen.value == 3
    assert found(uri) == AFTER
