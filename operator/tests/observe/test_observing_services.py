"""What decides about table services, seen on a real table in a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tideline.clock import SystemClock
from tideline.formats.avro import encode_container
from tideline.hudi.open_table import open_table
from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.savepoint.record import Savepoint
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.table.file_counts import FileCounts
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata, WriteStat
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import RunService
from tideline.ingest.sources.checkpoint import INGEST_KEY
from tideline.storage.heartbeat import heartbeat_path
from tideline.storage.location import StoreLocation
from tideline_operator.decide.observed import ObservedTable
from tideline_operator.decide.planner import plan
from tideline_operator.decide.service_triggers import service_needs
from tideline_operator.observe import observation
from tideline_operator.observe.observation import Observer, count_files
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.testing.table_states import EMPTY, at, resolved, starts

CLOCK = SystemClock()
COMPACTION_PLAN: dict[str, Any] = {
    "operations": [], "extraMetadata": {}, "version": 2, "strategy": None,
    "preserveHoodieMetadata": False, "missingSchedulePartitions": None,
}  # fmt: skip


class Lake:
    """A table whose instants are written by hand, each at the next number."""

    def __init__(self, folder: Path, **spec: Any) -> None:
        location = StoreLocation.of(f"file://{folder}/table")
        kind = TableType(spec.get("type", "COPY_ON_WRITE"))
        definition = TableDefinition(
            name="people",
            record_key=("id",),
            partition_by=("city",),
            ordering=("ts",),
            table_version=6,
            table_type=kind,
        )
        create_table(location.open(), definition, CLOCK)
        self.table = open_table(location, CLOCK)
        declared = resolved(ingest=[], **spec)
        self.resource: ResolvedTable = replace(declared, location=Location(location.uri))
        self.observer = Observer(CLOCK)
        self.number = 0

    def add(self, action: Action, body: bytes) -> InstantTime:
        """A completed instant."""
        time = self.next()
        instant = self.table.timelines.create_requested(time, action)
        self.table.timelines.complete(self.table.timelines.to_inflight(instant), body)
        return time

    def commit(self, operation: str = "UPSERT", action: Action = Action.COMMIT,
               **extra: str) -> InstantTime:  # fmt: skip
        return self.add(action, CommitMetadata({}, operation, extra).encode())

    def plan_compaction(self) -> InstantTime:
        time = self.next()
        body = encode_container("HoodieCompactionPlan", COMPACTION_PLAN)
        self.table.timelines.create_requested(time, Action.COMPACTION, body)
        return time

    def next(self) -> InstantTime:
        self.number += 1
        return at(self.number)

    def see(self) -> ObservedTable:
        observed = self.observer.observe(self.resource, EMPTY)
        assert observed.table is not None, observed.problem
        return observed.table

    def file(self, name: str, size_bytes: int) -> None:
        path = self.table.store.local_path(f"rome/{name}")
        assert path is not None
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_bytes(b"x" * size_bytes)


def count_slowly(hoodie: HoodieTable, timeline: ActiveTimeline) -> FileCounts:
    """So that the next count is far away."""
    CLOCK.sleep(0.005)
    return count_files(hoodie, timeline)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.fixture
def merge_on_read(tmp_path: Path) -> Lake:
    return Lake(tmp_path, type="MERGE_ON_READ")


def test_clusterings_are_distinguished_from_other_replacements(lake: Lake) -> None:
    lake.commit()
    clustering = lake.commit("CLUSTER", Action.REPLACECOMMIT)
    lake.commit("INSERT_OVERWRITE", Action.REPLACECOMMIT)
    assert lake.see().history.clusterings == {clustering}


def test_the_last_clean_says_what_it_kept(lake: Lake) -> None:
    first, second = lake.commit(), lake.commit()
    record = {
        "startCleanTime": "", "timeTakenInMillis": 1, "totalFilesDeleted": 0,
        "earliestCommitToRetain": str(second), "lastCompletedCommitTimestamp": str(second),
        "partitionMetadata": {}, "version": 2, "bootstrapPartitionMetadata": {},
        "extraMetadata": {},
    }  # fmt: skip
    clean = lake.add(Action.CLEAN, encode_container("HoodieCleanMetadata", record))
    found = lake.see().history.last_clean
    assert found is not None
    assert (found.time, found.earliest_retained) == (clean, second)
    assert first < second


def test_savepoints_are_known_by_their_name_or_their_instant(lake: Lake) -> None:
    for comment in ("before-migration", ""):
        time = lake.commit()
        inflight = Instant(time, Action.SAVEPOINT, State.INFLIGHT)
        lake.table.timelines.complete(
            lake.table.timelines.to_inflight(inflight), Savepoint(time, comment=comment).encode()
        )
    assert lake.see().savepoints == {"before-migration": str(at(1)), str(at(2)): str(at(2))}


def test_a_plan_that_no_process_runs_is_resumed_and_one_with_a_heartbeat_is_not(
    merge_on_read: Lake,
) -> None:
    lake = merge_on_read
    lake.commit(action=Action.DELTACOMMIT)
    time = lake.plan_compaction()
    (pending,) = lake.see().pending
    assert (pending.service, pending.is_idle, pending.is_dead) == (COMPACTION, True, False)
    observed = lake.observer.observe(lake.resource, EMPTY)
    (start,) = starts(plan(lake.resource, EMPTY, observed, CLOCK.now_ms()))
    work = start.operation.work
    assert isinstance(work, RunService)
    assert (work.service, work.resumes) == (COMPACTION, (str(time),))
    lake.table.store.put(heartbeat_path(str(time)), b"")
    (pending,) = lake.see().pending
    assert (pending.is_idle, pending.dead_at_ms is not None) == (False, True)


def test_commits_after_a_restore_are_distinguished_by_writer(tmp_path: Path) -> None:
    ingest: dict[str, Any] = {INGEST_KEY: "landing"}
    lake = Lake(tmp_path, restoreTo="a")
    lake.commit(**ingest)
    lake.add(Action.RESTORE, b"")
    ours = lake.commit(**ingest)
    lake.commit()
    assert lake.see().history.ingests == {ours}


def test_files_are_counted_after_a_change_and_not_again(lake: Lake) -> None:
    time = lake.commit()
    lake.file(f"a-0_0-1-1_{time}.parquet", 50)
    lake.file(f"b-0_0-1-1_{time}.parquet", 70)
    lake.file(f"c-0_0-1-1_{at(50)}.parquet", 70)
    (Path(str(lake.table.store.local_path("rome"))) / ".hoodie_partition_metadata").write_bytes(
        f"commitTime={time}\npartitionDepth=1\n".encode()
    )
    expected = FileCounts(partitions=1, file_groups=2, base_files=2, small_files=2, size_bytes=120)
    assert lake.see().counts == expected
    assert lake.see().counts is None
    time = lake.commit()
    lake.file(f"a-0_0-1-1_{time}.parquet", 60)
    counts = lake.see().counts
    assert counts is None or counts.size_bytes == 130


def test_a_table_lacks_logs_until_a_commit_wrote_one_or_something_was_undone(
    merge_on_read: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files were counted once, and are not counted again meanwhile."""
    lake = merge_on_read

    def commit(name: str, **stat: Any) -> bool:
        made = WriteStat(file_id="a-0", path=f"rome/{name}", partition_path="rome", **stat)
        written = CommitMetadata.of_stats([made], operation_type="UPSERT", extra_metadata={})
        lake.add(Action.DELTACOMMIT, written.encode())
        return lake.see().history.lacks_logs

    def look_again() -> bool:
        lake.observer.forget(lake.resource)
        return lake.see().history.lacks_logs

    monkeypatch.setattr(observation, "_COUNTING_SHARE", 10**9)
    monkeypatch.setattr(observation, "count_files", count_slowly)
    assert lake.see().history.lacks_logs
    assert commit("a-0_0-1-1_1.parquet")
    assert not commit(".a-0_1.log.1_0-1-1")
    assert not commit("b-0_0-1-1_1.parquet")
    assert look_again()
    assert not commit(".a-0_1.log.2_0-1-1", log_version=2)
    assert look_again()
    lake.add(Action.ROLLBACK, b"")
    assert not lake.see().history.lacks_logs


def test_what_merges_logs_is_not_due_without_any(merge_on_read: Lake) -> None:
    lake = merge_on_read
    for _ in range(5):
        lake.commit(action=Action.DELTACOMMIT)
    seen = lake.see()

    def reason(table: ObservedTable) -> str:
        needs = service_needs(lake.resource.spec, EMPTY, table, CLOCK.now_ms())
        return next(need.reason for need in needs if need.service == COMPACTION)

    assert reason(seen) == "the table has no log files"
    others = replace(seen, history=replace(seen.history, lacks_logs=False))
    assert reason(others) == "5 of 5 delta commits since the table began"


def test_services_that_a_table_does_not_want_cost_no_reading(merge_on_read: Lake) -> None:
    time = merge_on_read.commit(action=Action.DELTACOMMIT)
    path = merge_on_read.table.store.local_path(f".hoodie/{time}.deltacommit")
    assert path is not None
    Path(path).write_text("not read")
    assert merge_on_read.see().history.log_compactions == frozenset()


def test_clustering_is_not_due_where_hudi_made_buckets(tmp_path: Path) -> None:
    lake = Lake(tmp_path, services={"clustering": {"enabled": True, "everyCommits": 1}})
    assert lake.see().adoption.left_out == {}
    time = lake.commit()
    assert lake.see().adoption.left_out == {}
    stats = []
    for bucket in range(3):
        file_id = f"{bucket:08d}-1111-4111-8111-111111111111-0"
        name = f"{file_id}_0-1-1_{time}.parquet"
        lake.file(name, 10)
        stats.append(WriteStat(file_id=file_id, path=f"rome/{name}", partition_path="rome"))
    metadata = CommitMetadata.of_stats(stats, operation_type="UPSERT", extra_metadata={})
    lake.add(Action.COMMIT, metadata.encode())
    seen = lake.see()
    need = next(
        need
        for need in service_needs(lake.resource.spec, EMPTY, seen, CLOCK.now_ms())
        if need.service is CLUSTERING
    )
    assert not need.is_due and "bucket index" in need.reason
