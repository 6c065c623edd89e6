"""Compaction and clustering on both engines: same rows before and after, files as planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tideline
from tideline.errors import ConflictError
from tideline.hudi.file_group.file_slice_merge import SliceContext, read_file_slice
from tideline.hudi.services.clustering.plan import ClusteringPlan
from tideline.hudi.services.engine import ServiceWork
from tideline.hudi.services.table_history import stored_plan
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.timeline.instant import Action, State
from tideline.in_process.service_engine import InProcessServiceEngine
from tideline.in_process.service_size import MemoryBudget
from tideline.lake_table import LakeTable
from tideline.services.explanation import Explanation
from tideline.spark.services.clustering import cluster_groups

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string()), ("ts", pa.int64()),
                    ("v", pa.string()), ("tags", pa.list_(pa.string()))])  # fmt: skip
QUIET = {"hoodie.compact.inline": "false", "hoodie.parquet.small.file.limit": "0"}
DUE = {"hoodie.compact.inline.max.delta.commits": "1", "hoodie.clustering.inline.max.commits": "1"}


Engine = Mapping[str, str]
"""The setting that names it."""


@pytest.fixture(params=["spark", "in_process"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return {"tideline.engine.small": request.param}


def rows_of(numbers: range, version: int) -> pa.Table:
    rows = {
        "id": list(numbers),
        "region": [f"r{number % 2}" for number in numbers],
        "ts": [version] * len(numbers),
        "v": [f"v{(number * 37) % 101}" if number % 7 else None for number in numbers],
        "tags": [[f"t{number}", None] if number % 3 else None for number in numbers],
    }
    return pa.table(rows, schema=SCHEMA)


def create(folder: Path, table_type: str) -> LakeTable:
    table = tideline.create(
        str(folder), schema=SCHEMA, record_key=["id"], partition_by=["region"], ordering=["ts"],
        table_type=table_type, properties={"hoodie.clean.automatic": "false"},
    )  # fmt: skip
    for start in (0, 200):
        table.write(rows_of(range(start, start + 200), 1), "insert", options=QUIET)
    table.write(rows_of(range(100, 250), 2), "upsert", options=QUIET)
    table.write(rows_of(range(20, 30), 3), "delete", options=QUIET)
    return table


def stored(table: LakeTable) -> list[dict[str, Any]]:
    hoodie = table.hoodie_table
    timeline = hoodie.timeline()
    schema = hoodie.schemas.newest(timeline)
    assert schema is not None
    context = SliceContext.of(hoodie, timeline, schema)
    view = hoodie.files.view(timeline)
    rows = [
        row
        for partition in view.partitions
        for file_slice in view.latest_slices(partition)
        for batch in read_file_slice(hoodie.store, file_slice, context)
        for row in batch.to_pylist()
    ]
    for row in rows:
        del row["_hoodie_file_name"]
    return sorted(rows, key=lambda row: row["id"])


def test_compaction_keeps_every_row_and_its_meta_columns(
    spark: SparkSession, tmp_path: Path, engine: Engine
) -> None:
    table = create(tmp_path / "t", "MERGE_ON_READ")
    before = stored(table)
    assert len(before) == 390
    plan = table.plan("compaction", options=DUE)
    assert isinstance(plan.outcome, Explanation)
    assert plan.outcome.bytes_read > 0
    assert plan.outcome.estimated_s is None
    run = table.run("compaction", options={**DUE, **engine}, spark=spark)
    assert len(run.done) == 1
    assert stored(table) == before
    hoodie = table.hoodie_table
    view = hoodie.files.view(hoodie.timeline())
    assert not any(p.log_files for part in view.partitions for p in view.latest_slices(part))
    table.write(rows_of(range(100, 120), 4), "upsert", options=QUIET)
    again = table.plan("compaction", options=DUE).outcome
    assert isinstance(again, Explanation)
    assert again.estimated_s is not None


@pytest.mark.slow_with("spark")
def test_log_compaction_keeps_every_row(
    spark: SparkSession, tmp_path: Path, engine: Engine
) -> None:
    table = create(tmp_path / "t", "MERGE_ON_READ")
    before = stored(table)
    options = {"hoodie.log.compaction.blocks.threshold": "1", **engine}
    run = table.run("log_compaction", options=options, spark=spark)
    assert len(run.done) == 1
    assert stored(table) == before


@pytest.mark.slow_with("spark-MERGE_ON_READ-HILBERT", "spark-COPY_ON_WRITE-LINEAR")
@pytest.mark.parametrize(
    ("table_type", "layout"),
    [
        ("COPY_ON_WRITE", "LINEAR"),
        ("MERGE_ON_READ", "HILBERT"),
        pytest.param("COPY_ON_WRITE", "ZORDER", marks=pytest.mark.slow),
        pytest.param("COPY_ON_WRITE", "HILBERT", marks=pytest.mark.slow),
        pytest.param("MERGE_ON_READ", "LINEAR", marks=pytest.mark.slow),
        pytest.param("MERGE_ON_READ", "ZORDER", marks=pytest.mark.slow),
    ],
)
def test_clustering_keeps_every_row(
    spark: SparkSession, tmp_path: Path, table_type: str, layout: str, engine: Engine
) -> None:
    table = create(tmp_path / "t", table_type)
    before = stored(table)
    sort = {
        "hoodie.clustering.plan.strategy.sort.columns": "v,id",
        "hoodie.layout.optimize.strategy": layout,
    }
    run = table.run("clustering", options={**DUE, **sort, **engine}, spark=spark)
    assert len(run.done) == 1
    assert stored(table) == before
    hoodie = table.hoodie_table
    view = hoodie.files.view(hoodie.timeline())
    assert [len(view.latest_base_files(part)) for part in view.partitions] == [1, 1]


@pytest.mark.slow_with("spark-ZORDER")
@pytest.mark.parametrize("layout", [pytest.param("LINEAR", marks=pytest.mark.slow), "ZORDER"])
def test_a_large_group_is_sorted_in_parts_over_several_files(
    spark: SparkSession, tmp_path: Path, layout: str, engine: Engine
) -> None:
    table = create(tmp_path / "t", "MERGE_ON_READ")
    before = {row["id"] for row in stored(table)}
    options = {
        **DUE,
        "hoodie.clustering.plan.strategy.sort.columns": "v,ts",
        "hoodie.layout.optimize.strategy": layout,
    }
    time = table.schedule("clustering", options=options)
    assert time is not None
    hoodie = table.hoodie_table
    (instant,) = hoodie.timeline().pending()
    assert str(instant.time) == time
    plan = stored_plan(hoodie, instant, ClusteringPlan)
    timeline = hoodie.timeline()
    schema = hoodie.schemas.newest_json(timeline)
    assert schema is not None
    work = ServiceWork(instant.time, schema, timeline, table.writer.config_for_rows(None))
    if engine["tideline.engine.small"] == "spark":
        stats: Sequence[WriteStat] = cluster_groups(spark, hoodie, work, plan, part_bytes_max=5_000)
    else:
        stats = InProcessServiceEngine(hoodie, budget=MemoryBudget(part_bytes_max=5_000)).cluster(
            work, plan
        )
    assert {stat.partition_path for stat in stats} == {"r0", "r1"}
    ids: list[int] = []
    for stat in stats:
        assert stat.path is not None
        with hoodie.store.open_reader(stat.path) as stream:
            rows = pq.read_table(stream)
        ids += rows.column("id").to_pylist()
        if layout == "LINEAR":
            values = rows.column("v").to_pylist()
            assert values == sorted(values, key=lambda value: (value is not None, value))
    assert sorted(ids) == sorted(before)


@pytest.mark.slow_with("spark")
def test_a_service_that_takes_too_long_is_given_up_and_keeps_its_plan(
    spark: SparkSession, tmp_path: Path, engine: Engine
) -> None:
    table = create(tmp_path / "t", "MERGE_ON_READ")
    before = stored(table)
    options = {**DUE, **engine, "tideline.service.timeout.seconds": "0.001"}
    with pytest.raises(ConflictError, match="did not finish within"):
        table.run("compaction", options=options, spark=spark)
    assert stored(table) == before
    (pending,) = table.timeline().pending()
    assert (pending.action, pending.state) == (Action.COMPACTION, State.REQUESTED)
    run = table.run("compaction", options={**DUE, **engine}, spark=spark)
    assert len(run.done) == 1
    assert stored(table) == before


def test_a_batch_compacts_cleans_and_archives_by_itself(
    spark: SparkSession, tmp_path: Path, engine: Engine
) -> None:
    table = tideline.create(
        str(tmp_path / "t"), schema=SCHEMA, record_key=["id"], partition_by=["region"],
        ordering=["ts"], table_type="MERGE_ON_READ",
        properties={"hoodie.compact.inline.max.delta.commits": "2",
                    "hoodie.clean.commits.retained": "1"},
    )  # fmt: skip
    batches = [spark.createDataFrame(rows_of(range(50), turn)) for turn in range(5)]
    reported = [table.write(rows, "upsert", options=engine).services for rows in batches]
    happened = [[outcome.service.name for outcome in outcomes] for outcomes in reported]
    assert ["compaction"] in happened
    assert any("cleaning" in services for services in happened)
    assert not [outcome for outcomes in reported for outcome in outcomes if outcome.failure]
    assert {row["ts"] for row in stored(table)} == {4}
