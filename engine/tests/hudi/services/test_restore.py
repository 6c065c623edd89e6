"""Restore: what is undone in which order, on both table types, and what a crash leaves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.errors import ConfigError, CorruptTableError, UnsupportedTableError
from tideline.formats.avro import decode_container
from tideline.formats.log_block import HeaderKey
from tideline.hudi.metadata_table.reader import MetadataListing
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import archive_table
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.execute import clean_table
from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.services.restore.execute import (
    RestoreDone,
    preview_restore,
    restore_table,
    schedule_restore,
)
from tideline.hudi.services.savepoint.execute import create_savepoint, delete_savepoint
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import METADATA_PARTITIONS, TableType
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, WRITE_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.services.explanation import NotDue
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.log_blocks import frames_of
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh, unexplained_objects

pytestmark = pytest.mark.usefixtures("version_6")

COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ


def make(table_type: TableType) -> SmallTable:
    """Two commits, a savepoint, then updates, inserts, an overwrite and a deleted partition."""
    settings = {"hoodie.parquet.small.file.limit": "0", "hoodie.compact.inline": "false"}
    table = SmallTable.in_memory(settings, table_type=table_type)
    table.write("insert", batch(range(6), 1))
    step(table)
    table.write("upsert", batch([0, 1], 2))
    step(table)
    create_savepoint(opened(table))
    for operation, rows in (
        ("upsert", batch([0, 2, 10], 3)),
        ("upsert", batch([0, 11], 4)),
        ("insert_overwrite", batch([12], 5)),
        ("upsert", batch([12, 1], 6)),
        ("delete_partition", batch([1], 0)),
    ):
        step(table)
        table.write(operation, rows)
    step(table)
    return table


def step(table: SmallTable) -> None:
    table.fake_clock.advance(60)


@pytest.fixture(scope="module", params=[COW, MOR], ids=str)
def prepared(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    table = make(request.param)
    yield table
    table.forget()


@pytest.fixture
def table(prepared: SmallTable) -> Iterator[SmallTable]:
    table = prepared.copy()
    step(table)
    yield table
    table.forget()


def opened(table: SmallTable, store: ObjectStore | None = None) -> HoodieTable:
    return open_fresh(table.location, store, table.clock)


def savepoint_of(table: SmallTable) -> InstantTime:
    return min(opened(table).timeline().savepointed_times())


def writes(table: SmallTable) -> list[InstantTime]:
    return [item.time for item in opened(table).timeline().of(*WRITE_ACTIONS)]


def state(table: SmallTable, as_of: InstantTime | None = None) -> dict[str, tuple[str, list[str]]]:
    """By file group: its base file, and the instants whose log blocks a reader applies."""
    table_now = opened(table)
    timeline = table_now.timeline()
    if as_of is not None:
        timeline = ActiveTimeline(timeline.up_to(as_of).instants)
    view = table_now.files.view(timeline)
    found = {}
    for partition in view.partitions:
        for file_slice in view.latest_slices(partition):
            applied: list[str] = []
            for log in file_slice.log_files:
                body = table_now.store.get(log.path)
                for frame in frames_of(body):
                    if frame.is_rollback:
                        target = frame.headers[HeaderKey.TARGET_INSTANT_TIME]
                        applied = [time for time in applied if time != target]
                    elif timeline.is_committed(InstantTime(frame.headers[HeaderKey.INSTANT_TIME])):
                        applied.append(frame.headers[HeaderKey.INSTANT_TIME])
            base = file_slice.base_file.name if file_slice.base_file else ""
            found[str(file_slice.group)] = (base, applied)
    return found


def unexplained(table: SmallTable) -> list[str]:
    """Objects nothing accounts for; the audit knows no log files, a command block explains one."""
    return [path for path in unexplained_objects(opened(table)) if ".log." not in path]


# The whole


def test_the_table_is_what_it_was_at_the_savepoint(table: SmallTable) -> None:
    time = savepoint_of(table)
    before = state(table, time)
    later = [item for item in writes(table) if item > time]
    done = restore_table(opened(table), time)
    assert state(table) == before
    assert [item.name.time for item in done.undone] == sorted(later, reverse=True)
    assert writes(table)[-1] == time
    assert unexplained(table) == []
    audit = done.to_json_object()
    assert audit["bytes_deleted"] > 0
    assert [item["instant"] for item in audit["undone"]] == [str(i) for i in reversed(later)]


def test_no_file_of_an_undone_instant_is_left(table: SmallTable) -> None:
    time = savepoint_of(table)
    later = [str(item) for item in writes(table) if item > time]
    restore_table(opened(table), time)
    paths = [info.path for info in table.store().list()]
    assert not [path for path in paths if any(instant in path for instant in later)]


def test_blocks_of_undone_instants_stay_undone_when_the_timeline_forgets_them(
    table: SmallTable,
) -> None:
    """Once the timeline starts after them, only a command block shows it to a reader."""
    time = savepoint_of(table)
    restore_table(opened(table), time)
    store = table.store()
    blocks = {name: applied for name, (_, applied) in state(table).items() if applied}
    table.write("upsert", batch([30], 7))
    store.put(".hoodie/archived/.commits_.archive.1_1-0-1", b"")
    delete_savepoint(opened(table), time)
    for item in [*opened(table).timeline()]:
        if item.action in COMMIT_ACTIONS and item.time <= time:
            for each in State:
                opened(table).timelines.remove(item.in_state(each))
    after = {name: applied for name, (_, applied) in state(table).items() if applied}
    assert {name: after[name] for name in blocks} == blocks


def test_the_table_goes_on_from_there(table: SmallTable) -> None:
    time = savepoint_of(table)
    restore_table(opened(table), time)
    step(table)
    table.write("upsert", batch([0, 20], 8))
    delete_savepoint(opened(table), time)
    step(table)
    table.write("upsert", batch([0], 9))
    clean_table(opened(table), CleaningConfig(commits_retained=1))
    assert unexplained(table) == []
    assert len(writes(table)) == 4


def test_restoring_again_finds_nothing_to_undo(table: SmallTable) -> None:
    time = savepoint_of(table)
    restore_table(opened(table), time)
    before = state(table)
    assert restore_table(opened(table), time).undone == ()
    assert state(table) == before


def test_a_preview_names_what_would_go_and_changes_nothing(table: SmallTable) -> None:
    time = savepoint_of(table)
    before = {info.path for info in table.store().list()}
    preview = preview_restore(opened(table), time)
    assert {info.path for info in table.store().list()} == before
    done = restore_table(opened(table), time)
    assert [(item.name, item.deleted) for item in preview.undone] == [
        (item.name, item.deleted) for item in done.undone
    ]


def test_a_write_that_began_before_the_savepoint_and_never_ended_is_undone(
    table: SmallTable,
) -> None:
    time = savepoint_of(table)
    old = InstantTime.from_epoch_ms(time.epoch_ms() - 1)
    action = writes_action(table)
    timelines = opened(table).timelines
    timelines.to_inflight(timelines.create_requested(old, action))
    table.store().put(f"p0/eeeeeeee-0000-0000-0000-000000000000-0_0-1-0_{old}.parquet", b"half")
    restore_table(opened(table), time)
    assert unexplained(table) == []
    assert old not in writes(table)


def writes_action(table: SmallTable) -> Action:
    first = opened(table).timeline().of(*COMMIT_ACTIONS).first()
    assert first is not None
    return first.action


def test_rollbacks_after_the_savepoint_are_forgotten(table: SmallTable) -> None:
    hoodie = opened(table)
    requested = hoodie.timelines.create_requested(hoodie.instants.next_time(), writes_action(table))
    assert requested.is_pending
    table.fake_clock.advance(7200)
    table.write("upsert", batch([3], 7))
    assert len(opened(table).timeline().of(Action.ROLLBACK)) == 1
    restore_table(opened(table), savepoint_of(table))
    assert len(opened(table).timeline().of(Action.ROLLBACK)) == 0


def test_a_broken_metadata_table_is_made_again(table: SmallTable) -> None:
    opened(table).properties.update({METADATA_PARTITIONS: "files"})
    table.store().put(".hoodie/metadata/.hoodie/hoodie.properties", b"")
    restore_table(opened(table), savepoint_of(table))
    restored = opened(table)
    assert restored.config.properties[METADATA_PARTITIONS] == "files"
    listed = MetadataListing(restored.store, restored.clock).read(None)
    assert listed and {name for name in listed if name} == set(restored.files.listing())
    assert unexplained(table) == []


def test_the_restore_says_what_it_undid_as_hudi_does(table: SmallTable) -> None:
    time = savepoint_of(table)
    done = restore_table(opened(table), time)
    plan = decode_container(table.store().get(f".hoodie/{done.instant}.restore.requested"))
    assert plan["savepointToRestoreTimestamp"] == str(time)
    assert plan["version"] == 2
    record = decode_container(table.store().get(f".hoodie/{done.instant}.restore"))
    assert record["instantsToRollback"] == [
        item["commitTime"] for item in plan["instantsToRollback"]
    ]
    assert record["restoreInstantInfo"] == plan["instantsToRollback"]
    assert set(record["hoodieRestoreMetadata"]) == set(record["instantsToRollback"])


# Crashes


def test_a_restore_that_dies_at_any_write_is_finished_by_asking_for_it_again(
    table: SmallTable,
) -> None:
    time = savepoint_of(table)
    before = state(table, time)
    trial = table.copy()
    faulty = FaultyStore(trial.store(), FaultPlan())
    restore_table(opened(trial, faulty), time)
    trial.forget()
    total = len(faulty.writes)
    plans = [FaultPlan(crash_before_write=number) for number in range(1, total + 1)]
    for plan in (*plans, FaultPlan(crash_after_write=total)):
        trial = table.copy()
        with pytest.raises(SimulatedCrash):
            restore_table(opened(trial, FaultyStore(trial.store(), plan)), time)
        trial.fake_clock.advance(7200)
        pending = len(opened(trial).timeline().of(Action.RESTORE).pending())
        if pending:
            with pytest.raises(UnsupportedTableError, match="restore is unfinished"):
                trial.write("upsert", batch([0], 9))
        restore_table(opened(trial), time)
        assert state(trial) == before, plan
        assert unexplained(trial) == [], plan
        assert writes(trial)[-1] == time
        trial.write("upsert", batch([0], 9))
        trial.forget()


def test_readers_see_whole_commits_while_a_restore_is_under_way(table: SmallTable) -> None:
    """Dying before any write shows what a reader saw just then: the table as of some commit."""
    time = savepoint_of(table)
    seen = [state(table, item) for item in writes(table) if item >= time]
    trial = table.copy()
    faulty = FaultyStore(trial.store(), FaultPlan())
    restore_table(opened(trial, faulty), time)
    trial.forget()
    for number in range(1, len(faulty.writes) + 1):
        trial = table.copy()
        with pytest.raises(SimulatedCrash):
            cut = FaultyStore(trial.store(), FaultPlan(crash_before_write=number))
            restore_table(opened(trial, cut), time)
        assert state(trial) in seen, number
        trial.forget()


# Refusals


def test_without_such_a_savepoint_it_is_refused(table: SmallTable) -> None:
    with pytest.raises(ConfigError, match=f"there are: {savepoint_of(table)}"):
        restore_table(opened(table), writes(table)[-1])


def test_a_savepoint_whose_files_are_missing_is_refused(table: SmallTable) -> None:
    time = savepoint_of(table)
    path = next(info.path for info in table.store().list("p0") if str(time) in info.path
                or ".parquet" in info.path)  # fmt: skip
    bases = {name.split("/")[0] + "/" + base for name, (base, _) in state(table, time).items()}
    path = sorted(bases)[0]
    table.store().delete(path)
    with pytest.raises(CorruptTableError, match="missing") as caught:
        restore_table(opened(table), time)
    assert caught.value.path == path
    assert len(opened(table).timeline().of(Action.RESTORE)) == 0


def test_a_restore_to_another_savepoint_has_to_be_finished_first(table: SmallTable) -> None:
    first, second = savepoint_of(table), writes(table)[0]
    create_savepoint(opened(table), second)
    schedule_restore(opened(table), first)
    with pytest.raises(ConfigError, match="another savepoint") as caught:
        restore_table(opened(table), second)
    assert caught.value.value == first
    with pytest.raises(ConfigError, match="restore is unfinished"):
        delete_savepoint(opened(table), first)
    assert isinstance(clean_table(opened(table), CleaningConfig(commits_retained=1)), NotDue)
    assert isinstance(restore_table(opened(table), first), RestoreDone)


def test_a_commit_that_a_newer_savepoint_keeps_is_not_undone(table: SmallTable) -> None:
    first = savepoint_of(table)
    table.fake_clock.advance(60)
    table.write("upsert", batch([0], 9))
    newer = create_savepoint(opened(table)).instant
    rows = table.values()
    for attempt in (restore_table, preview_restore):
        with pytest.raises(ConfigError, match="delete it first") as caught:
            attempt(opened(table), first)
        assert caught.value.value == str(newer)
    assert not len(opened(table).timeline().of(Action.RESTORE))
    assert table.values() == rows
    delete_savepoint(opened(table), newer)
    assert restore_table(opened(table), first).undone


@pytest.mark.parametrize("table_type", [COW, MOR], ids=str)
def test_a_clustering_that_completed_before_the_savepoint_was_made_stays(
    table_type: TableType,
) -> None:
    """It began before the savepointed commit. A clean has removed what it replaced."""
    due = {"hoodie.clustering.inline.max.commits": "1", "hoodie.clean.automatic": "false"}
    table = SmallTable.in_memory(due, table_type=table_type)
    table.write("insert", batch(range(0, 6, 2), 1))
    step(table)
    clustering = local_services(table, {}).schedule(CLUSTERING)
    assert isinstance(clustering, Instant)
    step(table)
    table.write("insert", batch(range(1, 6, 2), 1))
    step(table)
    local_services(table, {}).run_pending(CLUSTERING)
    step(table)
    saved = create_savepoint(opened(table)).instant
    assert clustering.time < saved
    for version in range(2, 6):
        step(table)
        table.write("upsert", batch([1], version))
    assert not isinstance(clean_table(opened(table), CleaningConfig(commits_retained=1)), NotDue)
    for _ in range(2):
        step(table)
        restore_table(opened(table), saved)
        assert table.values() == [(f"k{n:03d}", 1) for n in range(6)]
        assert [
            finding for finding in table.lake().check(keys=True) if finding.check == "files"
        ] == []
    table.forget()


def test_a_write_whose_log_was_there_when_the_savepoint_was_made_is_undone_all_the_same() -> None:
    """The savepoint names the log, which bears the instant of its base file, not of the write."""
    table = SmallTable.in_memory({"hoodie.clean.automatic": "false"}, table_type=MOR)
    table.write("insert", batch([0, 1], 1))
    step(table)
    saved: list[InstantTime] = []

    def others_first() -> None:
        step(table)
        table.write("upsert", batch([1], 2))
        step(table)
        saved.append(create_savepoint(opened(table)).instant)

    begun = table.write("upsert", batch([0], 2), after_files=others_first)
    assert begun.instant < str(saved[0])
    assert table.merged_values() == [("k000", 2), ("k001", 2)]
    step(table)
    restore_table(opened(table), saved[0])
    assert table.merged_values() == [("k000", 1), ("k001", 2)]
    table.forget()


def test_rows_of_archived_commits_are_there_after_a_restore(table: SmallTable) -> None:
    """The savepointed commit is then all that is left of the timeline."""
    fresh = opened(table)
    first, saved = writes(table)[:2]
    rows = table.values()
    config = ArchivalConfig(commits_min=1, commits_max=2, compaction_delta_commits=None)
    assert [item.time for item in archive_table(fresh, config).instants] == [first]
    assert table.values() == rows
    restore_table(opened(table), saved)
    assert writes(table) == [saved]
    assert table.values() == [(f"k{n:03d}", 2 if n < 2 else 1) for n in range(6)]


def test_a_truncated_plan_is_made_again_unless_it_was_begun(table: SmallTable) -> None:
    time = savepoint_of(table)
    before = state(table, time)
    instant = schedule_restore(opened(table), time)
    path = f".hoodie/{instant.time}.restore.requested"
    whole = table.store().get(path)
    table.store().put(path, whole[:50])
    table.store().put(f".hoodie/{instant.time}.restore.inflight", b"")
    with pytest.raises(CorruptTableError, match="cannot be read") as caught:
        restore_table(opened(table), time)
    assert caught.value.path == path
    table.store().delete(f".hoodie/{instant.time}.restore.inflight")
    restore_table(opened(table), time)
    assert state(table) == before
