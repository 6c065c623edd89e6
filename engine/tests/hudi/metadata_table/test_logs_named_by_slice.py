"""The metadata table of version 6: logs are named after their slice, blocks say who wrote them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.formats.log_block import (
    BlockKind,
    HeaderKey,
    encode_block,
    rollback_command_block,
)
from tideline.hudi.metadata_table.files_partition import FILES_PARTITION, FilesRecord, FileState
from tideline.hudi.metadata_table.form_by_slice import BY_SLICE
from tideline.hudi.metadata_table.partition import MetadataPartition
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.record import (
    MetadataRecord,
    encode_record_hfile,
    record_schema_json,
)
from tideline.hudi.metadata_table.writer import MetadataWriter
from tideline.hudi.table.file_group import FileSlice, LogFile, join_path
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import FILES, TableType
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.heartbeat import HEARTBEAT_DIRECTORY
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.stepping_store import Step, SteppingStore
from tideline.testing.table_audit import open_fresh, stale_listing

OFTEN = {"hoodie.metadata.compact.max.delta.commits": "2"}
LONG_S = 3_600.0


@pytest.fixture
def small() -> Iterator[SmallTable]:
    table = SmallTable.in_memory(
        table_version=6,
        table_type=TableType.MERGE_ON_READ,
        properties={"hoodie.metadata.enable": "true"},
    )
    table.write("insert", batch(range(6), 1))
    yield table
    table.forget()


def opened(small: SmallTable) -> HoodieTable:
    return small.lake().hoodie_table


def metadata_of(small: SmallTable) -> MetadataTable:
    return MetadataTable(small.store(), small.clock)


def newest(small: SmallTable) -> FileSlice:
    metadata = metadata_of(small)
    return metadata.stored(FILES_PARTITION, metadata.timeline()).groups[0][0]


def listed(small: SmallTable, partition: str = "p0") -> set[str]:
    found = FILES_PARTITION.look_up(metadata_of(small).read(FILES_PARTITION))
    return {name for name, _ in found.files(partition)}


def record_of(name: str) -> MetadataRecord:
    return FilesRecord("p0", {name: FileState(5)}).stored()


def of_files(name: str) -> dict[MetadataPartition, tuple[MetadataRecord, ...]]:
    return {FILES_PARTITION: (record_of(name),)}


def block(name: str, time: InstantTime) -> bytes:
    headers = {HeaderKey.INSTANT_TIME: str(time), HeaderKey.SCHEMA: record_schema_json()}
    return encode_block(BlockKind.HFILE_DATA, headers, encode_record_hfile([record_of(name)]))


def put_log(small: SmallTable, body: bytes, token: str = "0-0-0") -> LogFile:
    """Another writer's next log."""
    file_slice = newest(small)
    version = max(log.version for log in file_slice.log_files) + 1
    log = LogFile(FILES, file_slice.file_id, file_slice.base_instant, version, token, len(body))
    metadata_of(small).store.put(log.path, body)
    return log


def commit(small: SmallTable, instant: Instant, name: str) -> None:
    table = opened(small)
    MetadataWriter(table).commit(instant, of_files(name), table.timeline())


def started(small: SmallTable) -> Instant:
    """A write under way, with a sign of life."""
    table = opened(small)
    requested = table.timelines.create_requested(table.instants.next_time(), Action.DELTACOMMIT)
    table.store.put(f"{HEARTBEAT_DIRECTORY}/{requested.time}", b"")
    return table.timelines.to_inflight(requested)


def is_kept(small: SmallTable) -> bool:
    table = opened(small)
    return table.config.metadata_partitions == (FILES,) and stale_listing(table) == []


def test_each_commit_is_a_log_of_the_slice_with_the_next_version(small: SmallTable) -> None:
    for v in range(2, 4):
        small.write("upsert", batch([v], v))
    logs = newest(small).log_files
    assert [log.version for log in logs] == [1, 2, 3, 4]
    assert {log.instant for log in logs} == {BY_SLICE.first}
    assert is_kept(small)


def test_a_block_counts_if_its_instant_is_completed(small: SmallTable) -> None:
    metadata = metadata_of(small)
    time = opened(small).instants.next_time()
    pending = metadata.timelines.create_requested(time, Action.DELTACOMMIT)
    inflight = metadata.timelines.to_inflight(pending)
    put_log(small, block("x_0-0-0_20260101000000000.parquet", time))
    assert "x_0-0-0_20260101000000000.parquet" not in listed(small)
    metadata.timelines.complete(inflight, b"{}")
    assert "x_0-0-0_20260101000000000.parquet" in listed(small)
    found = metadata.read(FILES_PARTITION, without=[time])
    said = FILES_PARTITION.look_up(found).files("p0")
    assert "x_0-0-0_20260101000000000.parquet" not in dict(said)


def test_what_hudi_rolled_back_by_a_command_does_not_count(small: SmallTable) -> None:
    done = small.write("upsert", batch([0], 2)).instant
    before = listed(small)
    put_log(small, rollback_command_block(f"{done}006", str(done)), "1-0-1")
    assert len(listed(small)) == len(before) - 1
    put_log(small, block("y_0-0-0_20260101000000000.parquet", InstantTime(str(done))))
    assert "y_0-0-0_20260101000000000.parquet" in listed(small)


def test_a_sleepers_log_stays_and_does_not_count(small: SmallTable) -> None:
    """It was rolled back before it wrote; the next commit takes another name."""
    sleeper = InstantTime(f"{int(str(opened(small).instants.next_time())) - 1}")
    body = block("x_0-0-0_20260101000000000.parquet", sleeper)
    log = put_log(small, body)
    small.fake_clock.advance(1)
    small.write("upsert", batch([1], 2))
    assert metadata_of(small).store.get(log.path) == body
    assert [each.version for each in newest(small).log_files][-2:] == [log.version, log.version + 1]
    assert is_kept(small)


def test_a_name_that_is_taken_meanwhile_is_not_written_over(small: SmallTable) -> None:
    """Another process is at the same instant, such as one of zeros."""
    file_slice, time = newest(small), opened(small).instants.next_time()
    taken = put_log(small, b"another's", BY_SLICE.write_token(time))
    store = metadata_of(small).store
    log = BY_SLICE.put_log(store, file_slice.group, time, file_slice, b"ours")
    assert (store.get(taken.path), store.get(log.path)) == (b"another's", b"ours")


def test_a_compaction_is_at_the_newest_commit(small: SmallTable) -> None:
    last = metadata_of(small).timeline().last()
    assert last is not None
    small.write("upsert", batch([1], 2), options=OFTEN)
    compaction = metadata_of(small).timeline().of(Action.COMMIT).completed().last()
    assert compaction is not None
    assert compaction.time == InstantTime(f"{last.time}001")
    assert newest(small).base_instant == compaction.time
    assert [log.version for log in newest(small).log_files] == [1]
    assert is_kept(small)


def test_nothing_is_compacted_below_which_something_is_pending(small: SmallTable) -> None:
    """Its commit to the metadata table would sort before the compaction that lacks it."""
    early = started(small)
    small.write("upsert", batch([1], 2))
    for v in range(3, 6):
        small.write("upsert", batch([1], v), options=OFTEN)
    assert not len(metadata_of(small).timeline().of(Action.COMMIT))
    commit(small, early.in_state(State.COMPLETED), "x_0-0-0_20260101000000000.parquet")
    assert "x_0-0-0_20260101000000000.parquet" in listed(small)


def test_a_rollback_lists_the_logs_that_stay(small: SmallTable) -> None:
    """A writer of Hudi's that has appended to a log dies."""
    small.write("upsert", batch([0], 2))
    table = opened(small)
    died = started(small)
    (file_slice,) = table.files.read_view(table.timeline()).latest_slices("p0")
    log = LogFile("p0", file_slice.file_id, file_slice.base_instant, 9, "9-9-9", 0)
    table.store.put(log.path, block("any", died.time))
    marker = join_path(f".hoodie/.temp/{died.time}/p0", f"{log.name}.marker.APPEND")
    table.store.put(marker, b"")
    commit(small, died.in_state(State.COMPLETED), "x_0-0-0_20260101000000000.parquet")
    small.fake_clock.advance(LONG_S)
    assert [rolled.instant for rolled in small.lake().recover()] == [died.time]
    names = listed(small)
    assert log.name in names
    assert log.name.replace("log.9_9-9-9", "log.10_1-0-1") in names
    assert "x_0-0-0_20260101000000000.parquet" not in names
    assert is_kept(small)


def test_a_later_commit_that_died_does_not_end_the_log_before_ours(small: SmallTable) -> None:
    """Hudi 0.15 reads no further than a block that is later than all that is completed."""
    early, late = started(small), started(small)
    metadata = metadata_of(small)
    requested = metadata.timelines.create_requested(late.time, Action.DELTACOMMIT)
    metadata.timelines.to_inflight(requested)
    left = put_log(small, block("x_0-0-0_20260101000000000.parquet", late.time))
    commit(small, early.in_state(State.COMPLETED), "y_0-0-0_20260101000000000.parquet")
    assert metadata.timeline().find(late.time) is None
    assert metadata.store.head(left.path) is None
    commit(small, late.in_state(State.COMPLETED), "x_0-0-0_20260101000000000.parquet")
    names = {"x_0-0-0_20260101000000000.parquet", "y_0-0-0_20260101000000000.parquet"}
    assert names <= listed(small)


def test_an_undo_that_slept_deletes_nothing_of_others(small: SmallTable) -> None:
    """The next commit has the version of the one that another process undid meanwhile."""
    died = started(small)
    commit(small, died.in_state(State.COMPLETED), "x_0-0-0_20260101000000000.parquet")
    left = newest(small).log_files[-1]
    small.fake_clock.advance(LONG_S)
    others: list[LogFile] = []

    def before(step: Step) -> None:
        if step.method.startswith("delete") and step.path.endswith(left.name) and not others:
            others.append(left)
            small.write("upsert", batch([1, 40], 2))
            others.append(newest(small).log_files[-1])

    store = SteppingStore(small.store(), before)
    MetadataWriter(open_fresh(small.location, store, small.clock)).undo(died.time)
    assert [log.version for log in others] == [left.version, left.version]
    assert stale_listing(opened(small)) == []
    assert newest(small).log_files[-1] == others[-1]


def test_what_others_appended_to_is_not_deleted(small: SmallTable) -> None:
    died = started(small)
    commit(small, died.in_state(State.COMPLETED), "x_0-0-0_20260101000000000.parquet")
    metadata = metadata_of(small)
    log = newest(small).log_files[-1]
    done = small.write("upsert", batch([1], 2)).instant
    later = block("z_0-0-0_20260101000000000.parquet", InstantTime(str(done)))
    both = metadata.store.get(log.path) + later
    metadata.store.put(log.path, both)
    small.fake_clock.advance(LONG_S)
    small.lake().recover()
    assert opened(small).config.metadata_partitions == ()


@pytest.mark.parametrize("has_logs", [True, False])
def test_a_compaction_that_hudi_left_goes_unless_commits_are_on_top(
    small: SmallTable, has_logs: bool
) -> None:
    table, metadata = opened(small), metadata_of(small)
    table.properties.update({"hoodie.metadata.enable": None})
    last = metadata.timeline().last()
    assert last is not None
    time = InstantTime(f"{last.time}001")
    metadata.timelines.create_requested(time, Action.COMPACTION)
    done = small.write("upsert", batch([2], 2)).instant if has_logs else None
    if has_logs:
        metadata.timelines.create_requested(time, Action.COMPACTION)
        body = block("z_0-0-0_20260101000000000.parquet", InstantTime(str(done)))
        metadata.store.put(f"{FILES}/.files-0000-0_{time}.log.1_0-0-0", body)
    rows = small.values()
    small.write("upsert", batch([1], 1))
    assert small.values() == rows
    assert metadata.timeline().find(time) is None
    assert opened(small).config.metadata_partitions == (() if has_logs else (FILES,))
    assert has_logs or is_kept(small)
