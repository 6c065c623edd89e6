"""`files` is kept up to date by every change of a table; what cannot be is switched off."""

from __future__ import annotations

import pytest

from tideline.check_finding import Severity
from tideline.errors import ConflictError
from tideline.formats.log_block import BlockKind, HeaderKey, encode_block
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.check.repair import repair_table
from tideline.hudi.check.run import check_table
from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.metadata_table.config import (
    COMMITS_PER_COMPACTION,
    MetadataTableConfig,
    MetadataTableMode,
)
from tideline.hudi.metadata_table.files_partition import FILES_PARTITION, FilesRecord, FileState
from tideline.hudi.metadata_table.keep import (
    record_commit,
    sweep_metadata_table,
    undo_in_metadata_table,
)
from tideline.hudi.metadata_table.partition import MetadataPartition, file_group
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.metadata_table.writer import MetadataWriter
from tideline.hudi.open_table import open_table
from tideline.hudi.recovery.execute import FailedWrites
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.metadata_archival import archive_metadata_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    FILES,
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
    METADATA_TABLE_PATH,
)
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import stale_listing

ON = {"hoodie.metadata.enable": "true"}
OFF = {"hoodie.metadata.enable": "false"}
LONG_S = 3_600.0
FAILED = FailedWrites(eager=False, never=False, heartbeat=DEFAULT_LIMITS)


def opened(small: SmallTable) -> HoodieTable:
    return small.lake().hoodie_table


def of_files(name: str) -> dict[MetadataPartition, tuple[MetadataRecord, ...]]:
    """A record of `files` with one file."""
    return {FILES_PARTITION: (FilesRecord("p0", {name: FileState(5)}).stored(),)}


def metadata_of(small: SmallTable) -> MetadataTable:
    return MetadataTable(small.store(), small.clock)


def is_kept(small: SmallTable) -> bool:
    table = opened(small)
    return table.config.metadata_partitions == (FILES,) and stale_listing(table) == []


@pytest.mark.parametrize("version", [6, 9])
def test_the_first_write_that_wants_one_makes_it(version: int) -> None:
    small = SmallTable.in_memory(table_version=version)
    assert small.write("insert", batch(range(4), 1)).notes == ()
    assert opened(small).config.metadata_partitions == ()
    report = small.write("upsert", batch([2], 2), options=ON)
    assert "made the table's Hudi metadata table" in report.notes[0]
    assert is_kept(small)
    # Once it is there it is kept, without being asked for again.
    small.write("upsert", batch([3], 3))
    assert is_kept(small)
    report = small.write("upsert", batch([3], 4), options=OFF)
    assert "switched off" in report.notes[0]
    assert opened(small).config.metadata_partitions == ()
    assert list(small.store().list(METADATA_TABLE_PATH)) == []
    small.forget()


def test_instants_are_those_of_the_table(small: SmallTable) -> None:
    for v in range(2, 5):
        small.write("upsert", batch([v], v))
    theirs = {instant.time for instant in opened(small).timeline().completed()}
    ours = {instant.time for instant in metadata_of(small).timeline().completed()}
    assert ours == theirs | {metadata_of(small).form.first}
    assert is_kept(small)


def test_it_is_compacted_and_old_slices_go(small: SmallTable) -> None:
    for v in range(2, 3 * COMMITS_PER_COMPACTION + 2):
        small.write("upsert", batch([v % 6, v], v))
        assert is_kept(small)
    metadata = metadata_of(small)
    timeline = metadata.timeline()
    compactions = timeline.of(Action.COMMIT).completed().instants
    assert len(compactions) == 3
    newest, *older = metadata.stored(FILES_PARTITION, timeline).groups[0]
    assert newest.base_instant == compactions[-1].time
    assert [file_slice.base_instant for file_slice in older] == [compactions[-2].time]
    assert len(newest.log_files) <= COMMITS_PER_COMPACTION
    # Without the metadata table the same rows are found.
    rows = small.rows()
    opened(small).properties.update({METADATA_PARTITIONS: ""})
    assert small.rows() == rows


def test_how_often_it_is_compacted_can_be_said(small: SmallTable) -> None:
    often = {"hoodie.metadata.compact.max.delta.commits": "2"}
    for v in range(2, 7):
        small.write("upsert", batch([v], v), options=often)
    assert len(metadata_of(small).timeline().of(Action.COMMIT).completed()) == 3
    assert is_kept(small)


def test_old_instants_move_to_its_own_history(small: SmallTable) -> None:
    for v in range(2, 2 * COMMITS_PER_COMPACTION + 2):
        small.write("upsert", batch([v % 6], v))
    config = ArchivalConfig(commits_min=3, commits_max=5)
    table = opened(small)
    with table.lock().acquire():
        done = archive_metadata_table(table, config)
    assert done is not None
    compaction = metadata_of(small).timeline().of(Action.COMMIT).last()
    assert compaction is not None
    assert done.instants[0].time == metadata_of(small).form.first
    assert all(instant.completed_at is not None for instant in done.instants)
    assert all(instant.time < compaction.time for instant in done.instants)
    assert len(metadata_of(small).timeline()) < COMMITS_PER_COMPACTION
    assert is_kept(small)
    for v in range(40, 40 + COMMITS_PER_COMPACTION):
        small.write("upsert", batch([v % 6], v))
        assert is_kept(small)


def test_a_rollback_takes_the_instant_out_first(small: SmallTable) -> None:
    """A writer dies between its commit to the metadata table and the one to the table."""
    copy = small.copy()
    rehearsal = FaultyStore(copy.store())
    copy.write("upsert", batch([1, 7], 2), store=rehearsal)
    paths = [step.path for step in rehearsal.writes]
    last = max(n for n, path in enumerate(paths, 1) if path.endswith(".deltacommit"))
    assert METADATA_TABLE_PATH not in paths[last - 1]
    with pytest.raises(SimulatedCrash):
        small.write("upsert", batch([1, 7], 2), store=FaultyStore(small.store(), FaultPlan(last)))
    dead = opened(small).timeline().pending().last()
    assert dead is not None
    assert metadata_of(small).timeline().completed().find(dead.time) is not None
    # Readers leave its files out as long as it is pending.
    assert sorted(small.values()) == [(f"k{n:03d}", 1) for n in range(6)]
    small.fake_clock.advance(LONG_S)
    (rolled,) = small.lake().recover()
    assert rolled.instant == dead.time
    assert metadata_of(small).timeline().find(dead.time) is None
    assert is_kept(small)
    copy.forget()


def test_what_a_compaction_has_taken_in_cannot_be_taken_out(small: SmallTable) -> None:
    table = opened(small)
    first = table.timeline().completed().last()
    assert first is not None
    for v in range(2, COMMITS_PER_COMPACTION + 3):
        small.write("upsert", batch([v % 6], v))
    undo_in_metadata_table(table, first.time)
    assert opened(small).config.metadata_partitions == ()


def test_a_partition_that_hudi_is_building_is_left_to_it(small: SmallTable) -> None:
    table = opened(small)
    timelines = metadata_of(small).timelines
    building = timelines.create_requested(InstantTime("0" * 16 + "5"), Action.DELTACOMMIT)
    table.properties.update({METADATA_PARTITIONS_INFLIGHT: "column_stats"})
    sweep_metadata_table(opened(small), table.timeline())
    assert metadata_of(small).timeline().find(building.time) == building
    table.properties.update({METADATA_PARTITIONS_INFLIGHT: ""})
    sweep_metadata_table(opened(small), table.timeline())
    assert metadata_of(small).timeline().find(building.time) is None


def test_the_same_commit_again_is_no_second_one(small: SmallTable) -> None:
    """The reply of the store was lost after the commit to the metadata table."""
    table = opened(small)
    writer = MetadataWriter(table)
    pending = table.timelines.create_requested(table.instants.next_time(), Action.DELTACOMMIT)
    completed = pending.in_state(State.COMPLETED, table.instants.next_time())
    records = of_files("a_0-0-0_20260101000000000.parquet")
    writer.commit(completed, records, table.timeline())
    before = sorted((info.path, info.modified_ms) for info in small.store().list())
    MetadataWriter(table).commit(completed, records, table.timeline())
    assert sorted((info.path, info.modified_ms) for info in small.store().list()) == before
    others = of_files("b_0-0-0_20260101000000000.parquet")
    MetadataWriter(table).commit(completed, others, table.timeline())
    files = FILES_PARTITION.look_up(metadata_of(small).read(FILES_PARTITION)).files("p0")
    assert {name.partition("_")[0] for name, _ in files} & {"a", "b"} == {"b"}


@pytest.mark.parametrize("broken", ["properties", "version", "folder"])
def test_what_cannot_be_gone_on_with_is_switched_off(small: SmallTable, broken: str) -> None:
    store = small.store()
    properties = f"{METADATA_TABLE_PATH}/.hoodie/hoodie.properties"
    if broken == "properties":
        store.put(properties, b"hoodie.table.version=x\n")
    elif broken == "version":
        text = store.get(properties)
        version = opened(small).layout.table_version
        other = b"5" if version == 6 else b"6"
        old = b"hoodie.table.version=" + str(version).encode()
        store.put(properties, text.replace(old, b"hoodie.table.version=" + other))
    else:
        store.delete_prefix(METADATA_TABLE_PATH)
    expected = [(f"k{n:03d}", 1) for n in range(6)]
    assert sorted(small.values()) == expected
    table = opened(small)
    table.properties.update({"hoodie.metadata.enable": None})
    report = small.write("upsert", batch([1], 2))
    assert "switched off" in report.notes[0]
    assert opened(small).config.metadata_partitions == ()
    assert sorted(small.values()) == [(key, 2 if key == "k001" else v) for key, v in expected]


def test_who_wants_one_gets_a_new_one_for_one_that_is_broken(small: SmallTable) -> None:
    small.store().delete_prefix(METADATA_TABLE_PATH)
    report = small.write("upsert", batch([1], 2))
    assert "made the table's Hudi metadata table" in report.notes[0]
    assert is_kept(small)


def test_other_partitions_leave_the_list_before_their_files_go(small: SmallTable) -> None:
    table = opened(small)
    stale = f"{METADATA_TABLE_PATH}/column_stats/.col-stats-0000-0_1.log.1_0-0-0"
    table.store.put(stale, b"statistics")
    table.properties.update({METADATA_PARTITIONS: "files,column_stats"})
    copy = small.copy()
    report = copy.write("upsert", batch([1], 2))
    assert "dropped column_stats from" in report.notes[0]
    assert is_kept(copy)
    assert copy.store().head(stale) is None
    rehearsal = FaultyStore(small.copy().store())
    SmallTable(small.location, small.clock).copy().write("upsert", batch([1], 2), store=rehearsal)
    for number in range(1, len(rehearsal.writes) + 1):
        dying = small.copy()
        with pytest.raises(SimulatedCrash):
            dying.write(
                "upsert", batch([1], 2), store=FaultyStore(dying.store(), FaultPlan(number))
            )
        names = opened(dying).config.metadata_partitions
        assert "column_stats" not in names or dying.store().head(stale) is not None
        dying.fake_clock.advance(LONG_S)
        dying.write("upsert", batch([2], 3))
        assert is_kept(dying)
        dying.forget()
    copy.forget()


def test_dying_while_it_is_made_leaves_a_listing_or_all_of_it() -> None:
    small = SmallTable.in_memory(table_version=9)
    small.write("insert", batch(range(4), 1))
    counting = FaultyStore(small.copy().store())
    bootstrap_metadata_table(
        open_table(small.location, small.clock, counting, opened(small).config),
        opened(small).timeline(),
    )
    for number in range(1, len(counting.writes) + 1):
        dying = small.copy()
        table = opened(dying)
        store = FaultyStore(dying.store(), FaultPlan(number))
        with pytest.raises(SimulatedCrash):
            bootstrap_metadata_table(
                open_table(dying.location, dying.clock, store, table.config), table.timeline()
            )
        assert stale_listing(opened(dying)) == []
        assert dying.rows() == small.rows()
        dying.write("upsert", batch([1], 2), options=ON)
        assert is_kept(dying)
        dying.forget()
    small.forget()


def test_check_finds_what_it_lacks_and_makes_it_anew(small: SmallTable) -> None:
    table = opened(small)
    assert check_table(table) == ()
    metadata = metadata_of(small)
    (commit,) = (
        own for own in metadata.timeline().completed() if not str(own.time).startswith("0000")
    )
    MetadataWriter(table).undo(commit.time)
    found = check_table(table)
    assert {finding.check for finding in found} == {"metadata table"}
    assert {finding.severity for finding in found} == {Severity.ERROR}
    assert "miss rows of this file" in found[0].message
    repairs = repair_table(table, FAILED)
    assert [str(repair) for repair in repairs] == ["rebuild the metadata table from a listing"]
    assert check_table(opened(small)) == ()
    assert is_kept(small)


def test_check_finds_what_is_listed_and_gone(small: SmallTable) -> None:
    table = opened(small)
    first = table.timeline().completed().last()
    assert first is not None
    gone = of_files(f"x_0-0-0_{first.time}.parquet")
    pending = table.timelines.create_requested(table.instants.next_time(), Action.DELTACOMMIT)
    completed = pending.in_state(State.COMPLETED, table.instants.next_time())
    MetadataWriter(table).commit(completed, gone, table.timeline())
    table.timelines.remove(pending)
    (found,) = [finding for finding in check_table(table) if finding.check == "metadata table"]
    assert "lists a file that is not there" in found.message
    assert found.path == f"p0/x_0-0-0_{first.time}.parquet"


def test_what_no_commit_reads_is_noticed_by_check_and_by_a_compaction(small: SmallTable) -> None:
    """A base file is read when `files` is compacted."""
    opened(small).properties.update({"hoodie.metadata.enable": None})
    store = small.store()
    for info in store.list(f"{METADATA_TABLE_PATH}/{FILES}"):
        if info.path.endswith(".hfile"):
            store.put(info.path, b"nonsense")
    (found,) = check_table(opened(small))
    assert "cannot be read" in found.message
    notes = [
        note
        for v in range(2, COMMITS_PER_COMPACTION + 2)
        for note in small.write("upsert", batch([1], v)).notes
    ]
    assert len(notes) == 1
    assert "switched off" in notes[0]
    assert check_table(opened(small)) == ()


@pytest.mark.parametrize("is_whole", [False, True])
def test_an_unreadable_one_is_an_error_that_repair_mends(small: SmallTable, is_whole: bool) -> None:
    part = METADATA_TABLE_PATH if is_whole else f"{METADATA_TABLE_PATH}/{FILES}"
    small.store().delete_prefix(part)
    (found,) = check_table(opened(small))
    assert found.severity is Severity.ERROR
    assert "cannot be read" in found.message
    repair_table(opened(small), FAILED)
    assert check_table(opened(small)) == ()
    assert is_kept(small)


def test_who_lost_the_lock_publishes_nothing(small: SmallTable) -> None:
    """A writer sleeps for longer than its lease, somewhere within its commit."""
    table = opened(small)
    pending = table.timelines.create_requested(table.instants.next_time(), Action.DELTACOMMIT)
    completed = pending.in_state(State.COMPLETED, table.instants.next_time())
    metadata = CommitMetadata.of_stats((), operation_type="UPSERT", extra_metadata={})
    table.store.put(f"{METADATA_TABLE_PATH}/column_stats/x", b"statistics")
    table.properties.update({METADATA_PARTITIONS: "files,column_stats"})
    timeline = table.timeline()

    def lost() -> None:
        raise ConflictError("the lease on the table lock ran out; write again")

    for mode in MetadataTableMode:
        before = opened(small).config.properties
        with pytest.raises(ConflictError, match="ran out"):
            record_commit(table, completed, metadata, timeline, MetadataTableConfig(mode), lost)
        assert opened(small).config.properties == before
        assert metadata_of(small).timeline().completed().find(completed.time) is None
    with pytest.raises(ConflictError, match="ran out"):
        bootstrap_metadata_table(table, timeline, lost)
    assert opened(small).config.properties == before
    table.properties.update({METADATA_PARTITIONS: FILES})
    with pytest.raises(ConflictError, match="ran out"):
        record_commit(table, completed, metadata, timeline, guard=lost)
    assert metadata_of(small).timeline().completed().find(completed.time) is None


def test_what_a_writer_left_that_was_rolled_back_in_its_sleep_is_swept_up(
    small: SmallTable,
) -> None:
    time = opened(small).instants.next_time()
    metadata = metadata_of(small)
    metadata.timelines.to_inflight(metadata.timelines.create_requested(time, Action.DELTACOMMIT))
    log = metadata.form.put_log(
        metadata.store,
        file_group(FILES_PARTITION, 0),
        time,
        metadata.stored(FILES_PARTITION, metadata.timeline()).groups[0][0],
        encode_block(BlockKind.DELETE, {HeaderKey.INSTANT_TIME: str(time)}, b""),
    )
    small.lake().recover()
    assert metadata.timeline().find(time) is None
    assert metadata.store.head(log.path) is None
    assert is_kept(small)


@pytest.mark.parametrize(
    "name", [".files-0000-0_{}.log.1_0-0-0", "files-0000-0_0-0-0_{}.hfile"], ids=["log", "base"]
)
def test_a_file_that_came_after_its_instant_was_undone_goes_with_the_next_commit(
    small: SmallTable, name: str
) -> None:
    """Its writer slept before the PUT, was rolled back meanwhile, and died on waking."""
    late = f"{FILES}/{name.format(opened(small).instants.next_time())}"
    metadata = metadata_of(small)
    metadata.store.put(late, b"too late")
    small.fake_clock.advance(1)
    small.write("upsert", batch([1], 2))
    assert metadata.store.head(late) is None
    assert is_kept(small)


def test_a_writer_that_begins_between_two_looks_is_left_alone(small: SmallTable) -> None:
    """Hudi writes here before it takes the lock: in the table first, then its instant, its log."""
    table, metadata = opened(small), metadata_of(small)
    before, before_here = table.timeline(), metadata.timeline()
    pending = table.timelines.create_requested(table.instants.next_time(), Action.DELTACOMMIT)
    table.timelines.to_inflight(pending)
    timelines = metadata.timelines
    timelines.to_inflight(timelines.create_requested(pending.time, Action.DELTACOMMIT))
    log = f"{FILES}/.files-0000-0_{pending.time}.log.1_0-0-0"
    metadata.store.put(log, b"half a block")
    sweep_metadata_table(table, before)
    assert metadata.stored(FILES_PARTITION, before_here).strays == ()
    assert metadata.timeline().find(pending.time) is not None
    assert metadata.store.head(log) is not None


def test_a_change_of_properties_that_died_is_finished_by_the_next_writer(small: SmallTable) -> None:
    store = small.store()
    store.put(".hoodie/hoodie.properties.backup", store.get(".hoodie/hoodie.properties"))
    small.lake().recover()
    assert store.head(".hoodie/hoodie.properties.backup") is None


def test_a_restore_makes_it_anew(small: SmallTable) -> None:
    small.lake().savepoint()
    rows = small.rows()
    small.fake_clock.advance(1)
    small.write("upsert", batch([1, 9], 2))
    (kept,) = opened(small).timeline().savepointed_times()
    small.lake().restore(str(kept))
    assert small.rows() == rows
    assert is_kept(small)


def test_an_open_table_notices_that_it_was_switched_off(small: SmallTable) -> None:
    """It was switched off, but its files are still there; the next commit is not in them."""
    table = opened(small)
    assert len(table.files.read_view(table.timeline()).partitions) == 2
    opened(small).properties.update({METADATA_PARTITIONS: "", "hoodie.metadata.enable": None})
    left = {
        info.path: small.store().get(info.path) for info in small.store().list(METADATA_TABLE_PATH)
    }
    small.write("upsert", batch([1], 2))
    for path, body in left.items():
        small.store().put(path, body)
    timeline = table.timeline()
    assert table.files.read_view(timeline) == table.files.view_of(table.files.listing(), timeline)


def test_an_open_table_reads_one_that_was_made_anew(small: SmallTable) -> None:
    """Its first files have the names of those before."""
    table = opened(small)
    table.files.read_view(table.timeline())
    small.write("upsert", batch([1], 2), options=OFF)
    bootstrap_metadata_table(opened(small), opened(small).timeline())
    timeline = table.timeline()
    assert table.files.read_view(timeline) == table.files.view_of(table.files.listing(), timeline)


def test_what_is_there_as_another_action_is_not_undone(small: SmallTable) -> None:
    """A compaction of Hudi's may have the time of an instant of the table."""
    table, timelines = opened(small), metadata_of(small).timelines
    time = table.instants.next_time()
    timelines.to_inflight(timelines.create_requested(time, Action.REPLACECOMMIT))
    assert not MetadataWriter(table).undo(time)
    undo_in_metadata_table(table, time)
    assert opened(small).config.metadata_partitions == ()


def test_what_could_still_be_undone_is_not_compacted(small: SmallTable) -> None:
    """A writer died before its commit; those after it continue."""
    table = opened(small)
    pending = table.timelines.create_requested(table.instants.next_time(), Action.DELTACOMMIT)
    completed = pending.in_state(State.COMPLETED, table.instants.next_time())
    records = of_files("a_0-0-0_20260101000000000.parquet")
    MetadataWriter(table).commit(completed, records, table.timeline())
    for _ in range(COMMITS_PER_COMPACTION + 1):
        small.fake_clock.advance(1)
        instant = table.timelines.create_requested(table.instants.next_time(), Action.DELTACOMMIT)
        done = instant.in_state(State.COMPLETED, table.instants.next_time())
        MetadataWriter(table).commit(done, records, table.timeline())
        table.timelines.remove(instant)
    timeline = metadata_of(small).timeline()
    assert timeline.of(Action.COMMIT).completed().last() is None
    undo_in_metadata_table(table, pending.time)
    assert opened(small).config.metadata_partitions == (FILES,)
    assert metadata_of(small).timeline().find(pending.time) is None
