"""Undoing what a dead writer appended to logs: command blocks, and files of slices it began."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tideline.errors import CorruptTableError
from tideline.formats.avro import decode_container, encode_container
from tideline.formats.log_block import BlockFrame, HeaderKey, read_frames
from tideline.hudi.recovery.execute import (
    execute_attempt_rollback,
    execute_rollback,
    plan_instant_rollback,
)
from tideline.hudi.recovery.plan import LogRollback, RollbackPlan, plan_rollback
from tideline.hudi.recovery.undo import undo_files
from tideline.hudi.table.file_group import BaseFile, FileGroupId, FileSlice, LogFile
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.layout.table_layout import RollbackForm
from tideline.hudi.table.markers import Marker, MarkerKind, create_marker
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.commit_metadata import CommitMetadata, WriteStat
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.lake_table import LakeTable
from tideline.storage.object_store import ObjectStore
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.stepping_store import Step, SteppingStore
from tideline.testing.table_audit import open_fresh, traces_of

pytestmark = pytest.mark.usefixtures("version_6")

T = InstantTime("20250615160000000")
"""A dead writer's instant, after those of the table."""

BODY = b"half a log file"


@pytest.fixture(scope="module")
def prepared() -> Iterator[SmallTable]:
    table = SmallTable.in_memory(
        {"hoodie.parquet.small.file.limit": "0"}, table_type=TableType.MERGE_ON_READ
    )
    table.write("insert", batch(range(8), 1))
    table.write("upsert", batch([0, 2], 2))
    yield table
    table.forget()


@pytest.fixture
def table(prepared: SmallTable) -> Iterator[SmallTable]:
    table = prepared.copy()
    table.fake_clock.advance(7200)
    yield table
    table.forget()


@pytest.fixture
def store(table: SmallTable) -> ObjectStore:
    return table.store()


def hoodie(table: SmallTable, store: ObjectStore | None = None) -> HoodieTable:
    return open_fresh(table.location, store, table.clock)


def lake(table: SmallTable, store: ObjectStore | None = None) -> LakeTable:
    return LakeTable(hoodie(table, store))


def slice_of(table: SmallTable, partition: str = "p0") -> FileSlice:
    opened = hoodie(table)
    (file_slice,) = opened.files.view(opened.timeline()).latest_slices(partition)
    return file_slice


def leave_inflight(store: ObjectStore, body: bytes = b"", action: str = "deltacommit") -> None:
    store.put(f".hoodie/{T}.{action}.requested", b"")
    store.put(f".hoodie/{T}.{action}.inflight", body)


def leave_log(store: ObjectStore, file_slice: FileSlice, version: int, token: str = "0-9-9") -> str:
    base = file_slice.base_instant
    path = f"{file_slice.partition}/.{file_slice.file_id}_{base}.log.{version}_{token}"
    store.put(path, BODY)
    return path


def mark(store: ObjectStore, path: str, kind: MarkerKind = MarkerKind.APPEND) -> None:
    partition, _, name = path.rpartition("/")
    create_marker(store, T, Marker(partition, name, kind))


def frames_of(store: ObjectStore, path: str) -> tuple[BlockFrame, ...]:
    body = store.get(path)
    return read_frames(lambda offset, length: body[offset : offset + length], len(body))


def command_blocks(table: SmallTable, partition: str = "p0") -> list[tuple[int, str, str]]:
    """(log version, instant, target) of the command blocks of the partition's only file group."""
    found = []
    for log in slice_of(table, partition).log_files:
        if log.write_token == "1-0-1":
            (frame,) = frames_of(table.store(), log.path)
            assert frame.is_rollback
            instant = frame.headers[HeaderKey.INSTANT_TIME]
            found.append((log.version, instant, frame.headers[HeaderKey.TARGET_INSTANT_TIME]))
    return found


# From markers


def test_an_appended_slice_gets_a_command_block_in_its_next_log_file(
    table: SmallTable, store: ObjectStore
) -> None:
    leave_inflight(store)
    path = leave_log(store, slice_of(table), 2)
    mark(store, path)

    (rolled,) = lake(table).recover()

    rollback = hoodie(table).timeline().of(Action.ROLLBACK).last()
    assert rollback is not None
    assert command_blocks(table) == [(3, str(rollback.time), str(T))]
    assert command_blocks(table, "p1") == []
    assert store.get(path) == BODY, "readers skip its blocks, it need not go"
    assert rolled.deleted == ()
    assert [name.rpartition("_")[2] for name in rolled.command_logs] == ["1-0-1"]
    assert traces_of(store, T) == []


def test_a_marker_of_hudi_0_14_names_a_base_file(table: SmallTable, store: ObjectStore) -> None:
    leave_inflight(store)
    file_slice = slice_of(table)
    leave_log(store, file_slice, 2)
    mark(store, f"p0/{file_slice.file_id}_0-9-9_{file_slice.base_instant}.parquet")
    lake(table).recover()
    assert [(version, target) for version, _, target in command_blocks(table)] == [(3, str(T))]


def test_a_slice_that_has_no_log_gets_none(table: SmallTable, store: ObjectStore) -> None:
    """The writer died between its marker and its file."""
    leave_inflight(store)
    file_slice = slice_of(table, "p1")
    mark(store, f"p1/.{file_slice.file_id}_{file_slice.base_instant}.log.1_0-9-9")
    lake(table).recover()
    assert slice_of(table, "p1").log_files == ()


def test_logs_of_a_file_group_that_the_writer_began_are_deleted(
    table: SmallTable, store: ObjectStore
) -> None:
    leave_inflight(store)
    path = f"p0/.22222222-2222-2222-2222-222222222222-0_{T}.log.1_0-9-9"
    store.put(path, BODY)
    mark(store, path)
    (rolled,) = lake(table).recover()
    assert rolled.deleted == (path,)
    assert traces_of(store, T) == []


def test_what_was_done_is_recorded_as_hudi_records_it(
    table: SmallTable, store: ObjectStore
) -> None:
    leave_inflight(store)
    path = leave_log(store, slice_of(table), 2)
    mark(store, path)
    lake(table).recover()
    opened = hoodie(table)
    (rollback,) = opened.timeline().of(Action.ROLLBACK)
    plan = decode_container(opened.timelines.read(rollback.in_state(State.REQUESTED)))
    (request,) = plan["RollbackRequests"]
    file_slice, uri = slice_of(table), table.location.uri
    assert request == {
        "partitionPath": "p0",
        "fileId": file_slice.file_id,
        "latestBaseInstant": str(file_slice.base_instant),
        "filesToBeDeleted": [],
        "logBlocksToBeDeleted": {f"{uri}/{path}": len(BODY)},
    }
    done = decode_container(opened.timelines.read(rollback))["partitionMetadata"]["p0"]
    (command,) = [log for log in file_slice.log_files if log.write_token == "1-0-1"]
    assert done["rollbackLogFiles"] == {f"{uri}/{command.path}": command.size_bytes}
    assert done["logFilesFromFailedCommit"] == {f"{uri}/{path}": len(BODY)}
    assert done["successDeleteFiles"] == []


def test_a_log_appended_by_a_task_that_outlived_its_driver_gets_a_block_behind_it(
    table: SmallTable, store: ObjectStore
) -> None:
    leave_inflight(store)
    file_slice = slice_of(table)
    mark(store, leave_log(store, file_slice, 2))

    def before(step: Step) -> None:
        if step == Step("delete", f".hoodie/{T}.deltacommit.inflight"):
            mark(store, leave_log(store, file_slice, 4, "0-9-10"))

    lake(table, SteppingStore(store, before)).recover()
    assert [version for version, _, _ in command_blocks(table)] == [3, 5]
    assert {target for _, _, target in command_blocks(table)} == {str(T)}


def test_doing_it_again_writes_no_second_block(table: SmallTable, store: ObjectStore) -> None:
    file_slice = slice_of(table)
    path = leave_log(store, file_slice, 2)
    item = LogRollback(file_slice.group, file_slice.base_instant, {path: len(BODY)})
    plan = RollbackPlan(T, Action.DELTACOMMIT, {}, (item,))
    again = InstantTime("20250615170000000")
    first = undo_files(hoodie(table), plan, again)
    assert undo_files(hoodie(table), plan, again) == first
    assert len(command_blocks(table)) == 1


# From a listing


def test_without_markers_the_workload_profile_says_what_was_appended_to(
    table: SmallTable, store: ObjectStore
) -> None:
    file_slice = slice_of(table)
    stats = (
        WriteStat(file_id="", prev_commit="null", num_inserts=3),
        WriteStat(
            file_id=file_slice.file_id,
            prev_commit=str(file_slice.base_instant),
            num_update_writes=1,
        ),
    )
    leave_inflight(store, CommitMetadata({"p0": stats}, "UPSERT").encode())
    leave_log(store, file_slice, 2)
    created = f"p1/33333333-3333-3333-3333-333333333333-0_0-0-0_{T}.parquet"
    store.put(created, b"half")
    (rolled,) = lake(table).recover()
    assert rolled.deleted == (created,)
    assert [version for version, _, _ in command_blocks(table)] == [3]
    assert command_blocks(table, "p1") == []


def test_a_completed_delta_commit_is_undone_by_its_metadata(table: SmallTable) -> None:
    """As a restore does it: the instant's files go, and its log blocks are commanded away."""
    table.write("upsert", batch([0, 100], 3))
    opened = hoodie(table)
    commit = opened.timeline().completed().last()
    assert commit is not None
    stats = opened.timelines.read_commit(commit).write_stats
    written = {stat.path for stat in stats if stat.log_version is None}
    plan = plan_instant_rollback(opened, commit)
    assert set(plan.deleted_paths) == written
    (item,) = plan.log_rollbacks
    assert set(item.log_files) == {stat.path for stat in stats if stat.log_version is not None}


# Table services


def leave_compaction(store: ObjectStore, file_slice: FileSlice) -> tuple[str, str]:
    """A compaction that died while it wrote, and a log that a later writer put on top of it."""
    operation: dict[str, Any] = {
        "baseInstantTime": str(file_slice.base_instant),
        "deltaFilePaths": [log.name for log in file_slice.log_files],
        "dataFilePath": file_slice.base_file.name if file_slice.base_file else None,
        "fileId": file_slice.file_id,
        "partitionPath": file_slice.partition,
        "metrics": {},
        "bootstrapFilePath": None,
    }
    plan = {"operations": [operation], "extraMetadata": None, "version": 2}
    body = encode_container("HoodieCompactionPlan", plan)
    store.put(f".hoodie/{T}.compaction.requested", body)
    store.put(f".hoodie/{T}.compaction.inflight", b"")
    base = f"p0/{file_slice.file_id}_0-0-0_{T}.parquet"
    log = f"p0/.{file_slice.file_id}_{T}.log.1_0-9-9"
    store.put(base, b"half a file")
    store.put(log, BODY)
    return base, log


@pytest.mark.parametrize("marked", [True, False])
def test_a_failed_compaction_goes_back_to_requested(
    table: SmallTable, store: ObjectStore, marked: bool
) -> None:
    base, log = leave_compaction(store, slice_of(table))
    if marked:
        mark(store, base, MarkerKind.CREATE)
    opened = hoodie(table)
    assert lake(table).recover() == (), "it is not a failed write"
    pending = opened.timeline().find(T)
    assert pending is not None

    rolled = execute_attempt_rollback(opened, pending)

    assert rolled is not None
    assert rolled.deleted == (base,)
    assert store.head(base) is None
    assert store.get(log) == BODY, "it belongs to a later delta commit"
    assert opened.timeline().find(T) == Instant(T, Action.COMPACTION, State.REQUESTED)
    assert execute_attempt_rollback(opened, pending) is None


def test_a_failed_log_compaction_is_rolled_back_and_gone(
    table: SmallTable, store: ObjectStore
) -> None:
    file_slice = slice_of(table)
    operation = {
        "baseInstantTime": str(file_slice.base_instant),
        "deltaFilePaths": [log.name for log in file_slice.log_files],
        "fileId": file_slice.file_id,
        "partitionPath": "p0",
    }
    plan = {"operations": [operation], "version": 2}
    store.put(
        f".hoodie/{T}.logcompaction.requested", encode_container("HoodieCompactionPlan", plan)
    )
    store.put(f".hoodie/{T}.logcompaction.inflight", b"")
    leave_log(store, file_slice, 2)
    opened = hoodie(table)
    pending = opened.timeline().find(T)
    assert pending is not None
    assert execute_rollback(opened, pending) is not None
    assert opened.timeline().find(T) is None
    assert [version for version, _, _ in command_blocks(table)] == [3]


def test_a_rollback_of_a_compaction_that_died_is_taken_up_by_the_next_attempt(
    table: SmallTable, store: ObjectStore
) -> None:
    base, _ = leave_compaction(store, slice_of(table))
    plan = RollbackPlan(T, Action.COMPACTION, {"p0": (base,)})
    rollback = "20250615163000000"
    body = encode_container("HoodieRollbackPlan", plan.to_avro("file:/elsewhere"))
    store.put(f".hoodie/{rollback}.rollback.requested", body)
    assert lake(table).recover() == ()
    opened = hoodie(table)
    pending = opened.timeline().find(T)
    assert pending is not None
    execute_attempt_rollback(opened, pending)
    (done,) = opened.timeline().of(Action.ROLLBACK)
    assert (str(done.time), done.state) == (rollback, State.COMPLETED)
    assert opened.timeline().find(T) == Instant(T, Action.COMPACTION, State.REQUESTED)


def leave_clustering(store: ObjectStore, file_slice: FileSlice) -> str:
    """A clustering that died while it wrote its first file."""
    info: dict[str, Any] = {"dataFilePath": "x", "deltaFilePaths": [], "fileId": file_slice.file_id}
    info |= {"partitionPath": file_slice.partition, "bootstrapFilePath": "", "version": 1}
    group = {"slices": [info], "metrics": {}, "numOutputFileGroups": 1, "version": 1}
    plan = {"inputGroups": [group], "strategy": None, "version": 1}
    record = {"operationType": "CLUSTER", "clusteringPlan": plan, "version": 1}
    body = encode_container("HoodieRequestedReplaceMetadata", record)
    store.put(f".hoodie/{T}.replacecommit.requested", body)
    store.put(f".hoodie/{T}.replacecommit.inflight", b"")
    path = f"p0/44444444-4444-4444-4444-444444444444-0_0-0-0_{T}.parquet"
    store.put(path, b"half a file")
    return path


def test_a_failed_clustering_goes_back_to_requested_or_is_withdrawn(
    table: SmallTable, store: ObjectStore
) -> None:
    path = leave_clustering(store, slice_of(table))
    opened = hoodie(table)
    pending = Instant(T, Action.REPLACECOMMIT, State.INFLIGHT)
    rolled = execute_attempt_rollback(opened, pending)
    assert rolled is not None
    assert rolled.deleted == (path,)
    assert opened.timeline().find(T) == pending.in_state(State.REQUESTED)
    assert execute_rollback(opened, pending) is not None
    assert opened.timeline().find(T) is None


def test_a_withdrawal_that_died_is_finished_by_the_next_writer(
    table: SmallTable, store: ObjectStore
) -> None:
    """Once the clustering's plan is gone no other process would remove what is left."""
    path = leave_clustering(store, slice_of(table))

    def die(step: Step) -> None:
        if step.method == "put_if_absent" and step.path.endswith(".rollback"):
            raise InterruptedError

    pending = Instant(T, Action.REPLACECOMMIT, State.INFLIGHT)
    with pytest.raises(InterruptedError):
        execute_rollback(hoodie(table, SteppingStore(store, die)), pending)
    (rolled,) = lake(table).recover()
    assert (rolled.instant, rolled.deleted) == (T, (path,))
    assert traces_of(store, T) == []
    assert len(hoodie(table).timeline().pending()) == 0


@pytest.mark.parametrize("restores", [True, False])
def test_only_a_restore_takes_what_was_put_on_top_of_a_compaction(restores: bool) -> None:
    base = BaseFile("p", "f-0", "0-0-0", T, 10)
    log = LogFile("p", "f-0", T, 1, "0-9-9", 10)
    pending = Instant(T, Action.COMPACTION, State.INFLIGHT)
    plan = plan_rollback(
        pending,
        files=(base, log),
        by_listing=True,
        restores=restores,
        form=RollbackForm.COMMAND_BLOCKS,
    )
    assert set(plan.deleted_paths) == ({base.path, log.path} if restores else {base.path})
    assert plan.log_rollbacks == ()


# The plan as data


def test_a_plan_with_log_blocks_survives_avro() -> None:
    group = FileGroupId("día=1/ü b", "22222222-2222-2222-2222-222222222222-0")
    path = f"día=1/ü b/.{group.file_id}_{T}.log.1_0-9-9"
    later = InstantTime("20250615170000000")
    items = (LogRollback(group, T, {path: 5}), LogRollback(FileGroupId("", "f-0"), T, {".x": -1}))
    plan = RollbackPlan(later, Action.DELTACOMMIT, {"": ("a.parquet",)}, items)
    body = encode_container("HoodieRollbackPlan", plan.to_avro("s3a://bucket/tables/t"))
    assert RollbackPlan.from_avro(decode_container(body), path="x") == plan


def test_log_blocks_of_a_slice_that_is_not_named_are_refused() -> None:
    request = {"partitionPath": "p", "logBlocksToBeDeleted": {"s3a://b/t/p/.log": 5}}
    record = {
        "instantToRollback": {"commitTime": str(T), "action": "deltacommit"},
        "RollbackRequests": [request],
    }
    with pytest.raises(CorruptTableError, match="does not name"):
        RollbackPlan.from_avro(record, path="x")
