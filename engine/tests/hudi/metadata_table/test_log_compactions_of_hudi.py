"""Log compactions that Hudi makes in a metadata table: one block stands for those of others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.errors import UnsupportedTableError
from tideline.formats.log_block import BlockKind, HeaderKey, encode_block
from tideline.hudi.metadata_table.files_partition import FILES_PARTITION, FilesRecord, FileState
from tideline.hudi.metadata_table.in_step import was_in_step
from tideline.hudi.metadata_table.keep import undo_in_metadata_table
from tideline.hudi.metadata_table.partition import file_group
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.record import MetadataRecord, encode_record_hfile
from tideline.hudi.metadata_table.writer import MetadataWriter
from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import FILES
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.testing.small_table import SmallTable, batch

NEVER = 1_000


@pytest.fixture(params=[8, 9])
def small(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    table = of_version(request.param)
    yield table
    table.forget()


def of_version(version: int) -> SmallTable:
    kept = {"hoodie.metadata.enable": "true"}
    table = SmallTable.in_memory(table_version=version, properties=kept)
    table.write("insert", batch(range(6), 1))
    return table


def opened(small: SmallTable) -> HoodieTable:
    return open_table(small.location, small.clock, small.store())


def records(*names: str) -> tuple[MetadataRecord, ...]:
    states = {f"{name}_0-0-0_20260101000000000.parquet": FileState(5) for name in names}
    return (FilesRecord("q", states).stored(),)


def commit(small: SmallTable, *names: str, per_compaction: int = NEVER) -> InstantTime:
    """A commit to the metadata table that adds files."""
    table = opened(small)
    small.fake_clock.advance(1)
    pending = table.timelines.create_requested(table.instants.next_time(), Action.DELTACOMMIT)
    small.fake_clock.advance(1)
    completed = pending.in_state(State.COMPLETED, table.instants.next_time())
    writer = MetadataWriter(table, commits_per_compaction=per_compaction)
    writer.commit(completed, {FILES_PARTITION: records(*names)}, table.timeline())
    table.timelines.remove(pending)
    return pending.time


def compact_logs(
    small: SmallTable, of: list[InstantTime], *names: str, completes: bool = True
) -> InstantTime:
    """One of Hudi's, whose block says these files: others than the blocks that it stands for."""
    metadata, table = MetadataTable(small.store(), small.clock), opened(small)
    small.fake_clock.advance(1)
    time = table.instants.next_time()
    headers = {
        HeaderKey.INSTANT_TIME: str(time),
        HeaderKey.COMPACTED_BLOCK_TIMES: ",".join(map(str, of)),
    }
    block = encode_block(BlockKind.HFILE_DATA, headers, encode_record_hfile(records(*names)))
    requested = metadata.timelines.create_requested(time, Action.LOGCOMPACTION)
    inflight = metadata.timelines.to_inflight(requested)
    metadata.form.put_log(metadata.store, file_group(FILES_PARTITION, 0), time, None, block)
    if completes:
        small.fake_clock.advance(1)
        body = metadata.layout.timeline.encode_commit(CommitMetadata(operation_type="LOG_COMPACT"))
        metadata.timelines.complete(inflight, body, at=table.instants.next_time())
    return time


def files(small: SmallTable, *without: InstantTime) -> list[str]:
    read = MetadataTable(small.store(), small.clock).read(FILES_PARTITION, without)
    found = FILES_PARTITION.look_up(read).files("q")
    return sorted(name.partition("_")[0] for name, _ in found)


def test_its_block_counts_in_place_of_others(small: SmallTable) -> None:
    first, second = commit(small, "a"), commit(small, "b")
    third = commit(small, "c")
    compact_logs(small, [first], "x", completes=False)
    assert files(small) == ["a", "b", "c"]
    merged = compact_logs(small, [first, second], "ab")
    assert files(small) == ["ab", "c"]
    commit(small, "d")
    assert files(small) == ["ab", "c", "d"]
    compact_logs(small, [merged, third, first, second], "abc")
    assert files(small) == ["abc", "d"]


def test_a_compaction_takes_it_in(small: SmallTable) -> None:
    first, second = commit(small, "a"), commit(small, "b")
    compact_logs(small, [first, second], "ab")
    commit(small, "c", per_compaction=1)
    assert files(small) == ["ab", "c"]


def test_what_it_may_hold_cannot_be_undone(small: SmallTable) -> None:
    first = commit(small, "a")
    compact_logs(small, [first], "a")
    second = commit(small, "b")
    assert MetadataWriter(opened(small)).undo(second)
    assert files(small) == ["a"]
    assert not MetadataWriter(opened(small)).undo(first)
    undo_in_metadata_table(opened(small), first)
    assert opened(small).config.metadata_partitions == ()


def test_what_it_holds_of_an_instant_under_way_is_not_told_apart(small: SmallTable) -> None:
    first, second = commit(small, "a"), commit(small, "b")
    compact_logs(small, [first, second], "ab")
    with pytest.raises(UnsupportedTableError, match="not completed"):
        files(small, second)
    assert files(small, commit(small, "c")) == ["ab"]


def test_it_leaves_the_metadata_table_in_step(small: SmallTable) -> None:
    def in_step() -> bool:
        table, metadata = opened(small), MetadataTable(small.store(), small.clock)
        return was_in_step(table, metadata, metadata.timeline(), table.timeline(), {FILES})

    newest = opened(small).timeline().completed().last()
    assert newest is not None
    compact_logs(small, [newest.time], "a")
    assert in_step()
    commit(small, "b")
    assert not in_step()


def test_in_version_6_they_are_refused_by_name() -> None:
    small = of_version(6)
    compact_logs(small, [commit(small, "a")], "a")
    with pytest.raises(UnsupportedTableError, match="of version 6 is not read"):
        files(small)
    small.forget()
