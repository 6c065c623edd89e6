"""Savepoints: which instants can have one, what it protects, what a crash leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tideline.errors import ConfigError
from tideline.hudi.services.cleaning.config import CleaningConfig, CleaningPolicy
from tideline.hudi.services.cleaning.done import CleaningDone
from tideline.hudi.services.cleaning.execute import clean_table, schedule_cleaning
from tideline.hudi.services.savepoint.execute import (
    create_savepoint,
    delete_savepoint,
    list_savepoints,
)
from tideline.hudi.services.savepoint.record import Savepoint, savepointed_files
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.services.explanation import NotDue
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh, read_rows, unexplained_objects

KEEP_ONE = CleaningConfig(commits_retained=1)


@pytest.fixture(scope="module")
def prepared() -> Iterator[SmallTable]:
    table = SmallTable.in_memory()
    table.write("insert", batch(range(6), 1))
    for v in (2, 3, 4):
        table.fake_clock.advance(60)
        table.write("upsert", batch([0, 1], v))
    yield table
    table.forget()


@pytest.fixture
def table(prepared: SmallTable) -> Iterator[SmallTable]:
    table = prepared.copy()
    table.fake_clock.advance(60)
    yield table
    table.forget()


def opened(table: SmallTable, store: ObjectStore | None = None) -> HoodieTable:
    return open_fresh(table.location, store, table.clock)


def commits(table: SmallTable) -> list[InstantTime]:
    return [item.time for item in opened(table).timeline().completed().of(Action.COMMIT)]


def rows_as_of(table: SmallTable, time: InstantTime) -> list[tuple[str, int]]:
    timeline = opened(table).timeline()
    past = type(timeline)(timeline.up_to(time).instants)
    return [(row["id"], row["v"]) for row in read_rows(opened(table), past)]


def clean(table: SmallTable, config: CleaningConfig = KEEP_ONE) -> CleaningDone:
    done = clean_table(opened(table), config)
    assert not isinstance(done, NotDue), done
    return done[-1]


def test_a_savepoint_keeps_its_files_through_cleaning(table: SmallTable) -> None:
    first, second, *_ = commits(table)
    before = rows_as_of(table, second)
    savepoint = create_savepoint(opened(table), second, user="ann", comment="before the change")
    assert (savepoint.created_by, savepoint.comment) == ("ann", "before the change")
    done = clean(table)
    assert rows_as_of(table, second) == before
    deleted = {file.path.rpartition("/")[2] for file in done.files}
    kept = {name for names in savepoint.files.values() for name in names}
    assert deleted and deleted.isdisjoint(kept)
    assert any(str(first) in name for name in deleted)


@pytest.mark.parametrize("policy", list(CleaningPolicy))
def test_no_policy_cleans_what_a_savepoint_keeps(table: SmallTable, policy: CleaningPolicy) -> None:
    time = commits(table)[1]
    before = rows_as_of(table, time)
    create_savepoint(opened(table), time)
    table.write("insert_overwrite_table", batch([40, 41], 9))
    table.fake_clock.advance(60)
    table.write("upsert", batch([40], 10))
    config = CleaningConfig(
        policy=policy, commits_retained=1, hours_retained=0, file_versions_retained=1
    )
    clean_table(opened(table), config)
    assert rows_as_of(table, time) == before


def test_the_newest_commit_is_taken_by_default(table: SmallTable) -> None:
    assert create_savepoint(opened(table)).instant == commits(table)[-1]


def test_a_table_whose_only_commit_is_savepointed_can_be_written_to() -> None:
    table = SmallTable.in_memory()
    table.write("insert", batch(range(2), 1))
    create_savepoint(opened(table))
    table.write("upsert", batch([0], 2))
    assert table.values() == [("k000", 2), ("k001", 1)]
    table.forget()


def test_creating_it_again_changes_nothing(table: SmallTable) -> None:
    first = create_savepoint(opened(table), user="ann")
    assert create_savepoint(opened(table), first.instant, user="bob") == first


def test_once_deleted_the_next_clean_takes_what_only_it_kept(table: SmallTable) -> None:
    time = commits(table)[1]
    kept = create_savepoint(opened(table), time)
    clean(table)
    delete_savepoint(opened(table), time)
    assert list_savepoints(opened(table)) == ()
    table.write("insert", batch([30], 1), options={"hoodie.parquet.small.file.limit": "0"})
    table.write("insert", batch([32], 1), options={"hoodie.parquet.small.file.limit": "0"})
    deleted = {file.path.rpartition("/")[2] for file in clean(table).files}
    assert deleted & {name for names in kept.files.values() for name in names}


def test_a_savepoint_on_a_cleaned_instant_is_refused(table: SmallTable) -> None:
    clean(table)
    with pytest.raises(ConfigError, match="have been cleaned") as caught:
        create_savepoint(opened(table), commits(table)[1])
    assert (caught.value.instant, caught.value.value) == (commits(table)[1], commits(table)[-1])
    create_savepoint(opened(table), commits(table)[-1])


def test_a_savepoint_on_an_instant_that_a_pending_clean_eats_into_is_refused(
    table: SmallTable,
) -> None:
    assert isinstance(schedule_cleaning(opened(table), KEEP_ONE), Instant)
    with pytest.raises(ConfigError, match="have been cleaned"):
        create_savepoint(opened(table), commits(table)[1])
    saved = create_savepoint(opened(table), commits(table)[-1])
    before = rows_as_of(table, saved.instant)
    clean(table)
    assert rows_as_of(table, saved.instant) == before


def test_a_clean_by_file_versions_leaves_only_the_newest_commit_to_savepoint(
    table: SmallTable,
) -> None:
    by_versions = replace(
        KEEP_ONE, policy=CleaningPolicy.KEEP_LATEST_FILE_VERSIONS, file_versions_retained=1
    )
    clean(table, by_versions)
    with pytest.raises(ConfigError, match="have been cleaned"):
        create_savepoint(opened(table), commits(table)[-2])
    create_savepoint(opened(table), commits(table)[-1])


def test_only_completed_commits_of_the_timeline_have_a_state_to_keep(table: SmallTable) -> None:
    pending = InstantTime.from_epoch_ms(table.clock.now_ms() + 60_000)
    timelines = opened(table).timelines
    timelines.create_requested(pending, Action.COMMIT)
    for time, match in (
        (pending, "pending commit"),
        (InstantTime("20200101000000000"), "no commit of this instant"),
    ):
        with pytest.raises(ConfigError, match=match):
            create_savepoint(opened(table), time)


def test_deleting_what_is_not_there_names_what_is(table: SmallTable) -> None:
    saved = create_savepoint(opened(table))
    with pytest.raises(ConfigError, match=str(saved.instant)):
        delete_savepoint(opened(table), commits(table)[0])


def test_a_crash_while_creating_leaves_nothing_or_a_savepoint_that_protects(
    table: SmallTable,
) -> None:
    time = commits(table)[1]
    for plan in crashes(table, lambda opened: create_savepoint(opened, time)):
        trial = table.copy()
        with pytest.raises(SimulatedCrash):
            create_savepoint(opened(trial, FaultyStore(trial.store(), plan)), time)
        trial.fake_clock.advance(3600)
        saved = savepointed_files(opened(trial), opened(trial).timeline())
        assert all(item.files for item in list_savepoints(opened(trial)) if item.is_completed)
        trial.write("upsert", batch([0], 9))
        again = create_savepoint(opened(trial), time)
        assert not saved or saved == {part: frozenset(found) for part, found in again.files.items()}
        assert [item.is_completed for item in list_savepoints(opened(trial))] == [True]
        assert unexplained_objects(opened(trial)) == []
        trial.forget()


def test_a_crash_while_deleting_leaves_it_whole_or_to_be_deleted_again(table: SmallTable) -> None:
    saved = create_savepoint(opened(table), commits(table)[1])
    for plan in crashes(table, lambda opened: delete_savepoint(opened, saved.instant)):
        trial = table.copy()
        with pytest.raises(SimulatedCrash):
            delete_savepoint(opened(trial, FaultyStore(trial.store(), plan)), saved.instant)
        trial.fake_clock.advance(3600)
        left = list_savepoints(opened(trial))
        assert all(item in (saved, Savepoint(saved.instant, is_completed=False)) for item in left)
        if left:
            delete_savepoint(opened(trial), saved.instant)
        assert list_savepoints(opened(trial)) == ()
        assert unexplained_objects(opened(trial)) == []
        trial.forget()


def test_an_unfinished_savepoint_protects_nothing_and_is_finished_by_creating_it(
    table: SmallTable,
) -> None:
    time = commits(table)[-1]
    inflight = Instant(time, Action.SAVEPOINT, State.INFLIGHT)
    opened(table).timelines.to_inflight(inflight)
    assert savepointed_files(opened(table), opened(table).timeline()) == {}
    assert create_savepoint(opened(table), time).is_completed


def crashes(table: SmallTable, act: object) -> list[FaultPlan]:
    """A crash before every write of `act`, and one after the last."""
    assert callable(act)
    trial = table.copy()
    faulty = FaultyStore(trial.store(), FaultPlan())
    act(opened(trial, faulty))
    trial.forget()
    total = len(faulty.writes)
    before = [FaultPlan(crash_before_write=number) for number in range(1, total + 1)]
    return [*before, FaultPlan(crash_after_write=total)]
