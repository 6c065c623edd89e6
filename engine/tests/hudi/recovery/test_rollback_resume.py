"""Rollbacks that another process began, and leftovers that no rollback finds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.formats.avro import encode_container
from tideline.hudi.recovery.execute import RolledBack
from tideline.hudi.recovery.plan import RollbackPlan
from tideline.hudi.table.markers import Marker, MarkerKind, create_marker, marked_names
from tideline.hudi.timeline.instant import Action, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.lake_table import LakeTable
from tideline.storage.object_store import ObjectStore
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh, traces_of, unexplained_objects

pytestmark = pytest.mark.usefixtures("version_6")

T = InstantTime("20250615160000000")
R = InstantTime("20250615170000000")
FILE = f"22222222-2222-2222-2222-222222222222-0_0-0-0_{T}.parquet"
OLD = [(f"k{number:03d}", 1) for number in range(8)]
POINTS = ("requested", "inflight", "file deleted", "inflight removed", "requested removed")


@pytest.fixture
def table(prepared: SmallTable) -> Iterator[SmallTable]:
    table = prepared.copy()
    table.fake_clock.advance(14_400)
    yield table
    table.forget()


@pytest.fixture
def store(table: SmallTable) -> ObjectStore:
    return table.store()


def recover(table: SmallTable) -> tuple[RolledBack, ...]:
    return LakeTable(open_fresh(table.location, clock=table.clock)).recover()


def leave_dead_write(store: ObjectStore) -> None:
    store.put(f".hoodie/{T}.commit.requested", b"")
    store.put(f".hoodie/{T}.inflight", b"")
    create_marker(store, T, Marker("p0", FILE, MarkerKind.CREATE))
    store.put(f"p0/{FILE}", b"half a file")


def leave_rollback(store: ObjectStore, plan: RollbackPlan, *, inflight: bool = True) -> None:
    """As Hudi writes it, with its own address of the table."""
    body = encode_container("HoodieRollbackPlan", plan.to_avro("file:/elsewhere/table"))
    store.put(f".hoodie/{R}.rollback.requested", body)
    if inflight:
        store.put(f".hoodie/{R}.rollback.inflight", b"")


def states_of(table: SmallTable, time: InstantTime) -> set[tuple[Action, State]]:
    timeline = open_fresh(table.location, clock=table.clock).timeline()
    return {(item.action, item.state) for item in timeline if item.time == time}


def assert_rolled_back(table: SmallTable) -> None:
    assert traces_of(table.store(), T) == []
    assert unexplained_objects(open_fresh(table.location, clock=table.clock)) == []
    assert table.values() == OLD


# Resuming


@pytest.mark.parametrize("point", POINTS)
def test_a_rollback_of_hudis_is_finished_from_wherever_it_stopped(
    table: SmallTable, store: ObjectStore, point: str
) -> None:
    reached = POINTS.index(point)
    leave_dead_write(store)
    plan = RollbackPlan(T, Action.COMMIT, {"p0": (f"p0/{FILE}",)})
    leave_rollback(store, plan, inflight=reached >= 1)
    done = (f"p0/{FILE}", f".hoodie/{T}.inflight", f".hoodie/{T}.commit.requested")
    for path in done[: max(0, reached - 1)]:
        store.delete(path)

    (rolled,) = recover(table)

    assert (rolled.instant, rolled.deleted) == (T, (f"p0/{FILE}",))
    assert states_of(table, R) == {(Action.ROLLBACK, State.COMPLETED)}
    assert_rolled_back(table)


def test_the_instant_is_not_rolled_back_a_second_time(
    table: SmallTable, store: ObjectStore
) -> None:
    leave_dead_write(store)
    leave_rollback(store, RollbackPlan(T, Action.COMMIT, {"p0": (f"p0/{FILE}",)}))
    assert len(recover(table)) == 1
    timeline = open_fresh(table.location, clock=table.clock).timeline()
    assert [item.time for item in timeline.of(Action.ROLLBACK)] == [R]


def test_a_rollback_of_a_completed_commit_takes_it_out_of_sight_first(
    table: SmallTable,
) -> None:
    """A person asked Hudi for it, and Hudi died before it had begun to delete."""
    table.write("upsert", batch([0], 2))
    opened = open_fresh(table.location, clock=table.clock)
    commit = opened.timeline().completed().last()
    assert commit is not None
    (stat,) = opened.timelines.read_commit(commit).write_stats
    plan = RollbackPlan(commit.time, Action.COMMIT, {"p0": (stat.path or "",)})
    body = encode_container("HoodieRollbackPlan", plan.to_avro("file:/elsewhere/table"))
    later = InstantTime.from_epoch_ms(table.clock.now_ms() + 1000)
    opened.store.put(f".hoodie/{later}.rollback.requested", body)
    assert ("k000", 2) in table.values()

    recover(table)

    assert table.values() == OLD
    assert traces_of(table.store(), commit.time) == []


def test_an_unreadable_plan_that_was_not_begun_is_made_again(
    table: SmallTable, store: ObjectStore
) -> None:
    leave_dead_write(store)
    store.put(f".hoodie/{R}.rollback.requested", b"")
    (rolled,) = recover(table)
    assert rolled.instant == T
    assert states_of(table, R) == set()
    assert_rolled_back(table)


def test_an_unreadable_plan_that_was_begun_stops_no_writer(
    table: SmallTable, store: ObjectStore
) -> None:
    leave_dead_write(store)
    store.put(f".hoodie/{R}.rollback.requested", b"Obj")
    store.put(f".hoodie/{R}.rollback.inflight", b"")
    assert [item.instant for item in recover(table)] == [T]
    assert traces_of(store, T) == []
    assert table.values() == OLD


def test_the_rollback_of_a_compaction_is_left_to_its_service(
    table: SmallTable, store: ObjectStore
) -> None:
    """It takes the inflight object alone away; the plan stays and is run again."""
    store.put(f".hoodie/{T}.compaction.requested", b"a plan")
    store.put(f".hoodie/{T}.compaction.inflight", b"")
    leave_rollback(store, RollbackPlan(T, Action.COMPACTION, {}))
    assert recover(table) == ()
    assert states_of(table, T) == {(Action.COMPACTION, State.INFLIGHT)}


# Sweeping


def leave_markers_and_heartbeat(store: ObjectStore, time: InstantTime) -> None:
    name = f"33333333-3333-3333-3333-333333333333-0_0-0-0_{time}.parquet"
    create_marker(store, time, Marker("p0", name, MarkerKind.CREATE))
    store.put(f".hoodie/.heartbeat/{time}", b"")


def test_markers_and_heartbeat_of_a_completed_commit_are_swept(
    table: SmallTable, store: ObjectStore
) -> None:
    commit = open_fresh(table.location).timeline().completed().first()
    assert commit is not None
    leave_markers_and_heartbeat(store, commit.time)
    recover(table)
    assert_rolled_back(table)


def test_a_pending_write_that_is_alive_keeps_its_markers(
    table: SmallTable, store: ObjectStore
) -> None:
    leave_dead_write(store)
    leave_markers_and_heartbeat(store, T)
    assert recover(table) == ()
    assert str(T) in marked_names(store)
    assert store.head(f".hoodie/.heartbeat/{T}") is not None


def test_a_living_heartbeat_without_an_instant_is_left_alone(
    table: SmallTable, store: ObjectStore
) -> None:
    """Hudi starts the heartbeat before the instant; or its writer was rolled back and continues."""
    leave_markers_and_heartbeat(store, T)
    recover(table)
    assert str(T) in marked_names(store)
    table.fake_clock.advance(601)
    recover(table)
    assert_rolled_back(table)


def test_files_of_an_unknown_instant_are_swept_with_their_markers(
    table: SmallTable, store: ObjectStore
) -> None:
    create_marker(store, T, Marker("p0", FILE, MarkerKind.CREATE))
    store.put(f"p0/{FILE}", b"")
    recover(table)
    assert_rolled_back(table)


def test_files_of_what_may_have_been_archived_are_kept(
    table: SmallTable, store: ObjectStore
) -> None:
    """Its commit may be in the archive, so only what no reader needs any more is deleted."""
    archived = InstantTime("20240101000000000")
    name = f"33333333-3333-3333-3333-333333333333-0_0-0-0_{archived}.parquet"
    leave_markers_and_heartbeat(store, archived)
    store.put(f"p0/{name}", b"")
    store.put(".hoodie/archived/.commits_.archive.1_1-0-1", b"")
    recover(table)
    assert traces_of(store, archived) == [f"p0/{name}"]


def test_a_marker_of_another_writers_file_is_left_to_a_person(
    table: SmallTable, store: ObjectStore
) -> None:
    """Nothing is deleted on its word."""
    commit = open_fresh(table.location).timeline().completed().first()
    assert commit is not None
    (path, *_) = [path for path in traces_of(store, commit.time) if path.endswith(".parquet")]
    partition, _, name = path.partition("/")
    create_marker(store, T, Marker(partition, name, MarkerKind.MERGE))
    recover(table)
    assert store.head(path) is not None
    assert str(T) in marked_names(store)
    assert table.values() == OLD


def test_other_things_in_the_marker_folder_are_left_alone(
    table: SmallTable, store: ObjectStore
) -> None:
    store.put(".hoodie/.temp/notes/readme", b"")
    store.put(".hoodie/.heartbeat/notes", b"")
    recover(table)
    assert store.head(".hoodie/.temp/notes/readme") is not None
    assert store.head(".hoodie/.heartbeat/notes") is not None


def test_every_writer_sweeps_before_it_starts(table: SmallTable, store: ObjectStore) -> None:
    leave_markers_and_heartbeat(store, T)
    table.fake_clock.advance(601)
    table.write("upsert", batch([0], 2))
    assert traces_of(store, T) == []
