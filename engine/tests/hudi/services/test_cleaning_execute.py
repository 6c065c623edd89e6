"""Cleaning a table for real: what goes, what stays, what a crash leaves, what is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tideline.errors import CorruptTableError, StorageUnavailableError
from tideline.formats.avro import decode_container
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.done import CleaningDone
from tideline.hudi.services.cleaning.execute import (
    clean_table,
    execute_cleaning,
    plan_table_cleaning,
    schedule_cleaning,
)
from tideline.hudi.services.cleaning.plan import CleaningPlan
from tideline.hudi.services.past_cleans import read_last_clean
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.services.explanation import NotDue
from tideline.storage.heartbeat import Heartbeat
from tideline.storage.object_store import Listing, ObjectInfo, ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import missing_files, open_fresh, unexplained_objects

pytestmark = pytest.mark.usefixtures("version_6")

KEEP_ONE = CleaningConfig(commits_retained=1)
LONG_S = 3600.0


@pytest.fixture(scope="module")
def prepared() -> Iterator[SmallTable]:
    """Three versions of p0, one of p1; the second version of p0 is the first to go."""
    table = SmallTable.in_memory()
    table.write("insert", batch(range(8), 1))
    for v in (2, 3, 4):
        table.write("upsert", batch([0, 2], v))
    yield table
    table.forget()


@pytest.fixture
def table(prepared: SmallTable) -> Iterator[SmallTable]:
    table = prepared.copy()
    table.fake_clock.advance(LONG_S)
    yield table
    table.forget()


def opened(table: SmallTable, store: ObjectStore | None = None) -> HoodieTable:
    return open_fresh(table.location, store, table.clock)


def clean(table: SmallTable, config: CleaningConfig = KEEP_ONE) -> tuple[CleaningDone, ...]:
    done = clean_table(opened(table), config)
    assert not isinstance(done, NotDue), done
    return done


def base_files(table: SmallTable) -> set[str]:
    return {file.path for file in opened(table).files.base_files()}


def cleans(table: SmallTable) -> list[Instant]:
    return list(opened(table).timeline().of(Action.CLEAN))


def test_cleaning_deletes_old_versions_and_says_so_file_by_file(table: SmallTable) -> None:
    before, rows = base_files(table), table.rows()
    sizes = {info.path: info.size_bytes for info in table.store().list()}
    (done,) = clean(table)
    gone = before - base_files(table)
    assert len(gone) == 2
    assert table.rows() == rows
    audit = done.to_json_object()
    assert {item["path"]: item["bytes"] for item in audit["deleted"]} == {
        path: sizes[path] for path in gone
    }
    assert audit["bytes_deleted"] == sum(sizes[path] for path in gone) > 0
    assert set(missing_files(opened(table))) == gone
    assert unexplained_objects(opened(table)) == []
    assert isinstance(clean_table(opened(table), KEEP_ONE), NotDue)


def test_the_next_clean_looks_only_where_commits_wrote_since(table: SmallTable) -> None:
    clean(table)
    table.write("upsert", batch([1], 5))
    table.write("upsert", batch([1], 6))
    store = ListingStore(table.store())
    plan = plan_table_cleaning(opened(table, store), KEEP_ONE)
    assert isinstance(plan, CleaningPlan)
    # p0 was written by the commit that the last clean retained, p1 by those after it.
    assert set(plan.files) == {"p0", "p1"}
    table.write("upsert", batch([1], 7))
    clean(table)
    table.write("upsert", batch([1], 8))
    store = ListingStore(table.store())
    plan = plan_table_cleaning(opened(table, store), KEEP_ONE)
    assert isinstance(plan, CleaningPlan) and set(plan.files) == {"p1"}
    assert [path for path in store.listed if path != ".hoodie"] == ["p1"]
    assert store.swept == []


def test_a_plan_that_finds_nothing_lists_no_data(table: SmallTable) -> None:
    clean(table)
    store = ListingStore(table.store())
    assert isinstance(plan_table_cleaning(opened(table, store), KEEP_ONE), NotDue)
    assert (store.swept, [path for path in store.listed if path != ".hoodie"]) == ([], [])


def test_inserts_into_new_files_are_no_reason_to_look(table: SmallTable) -> None:
    clean(table)
    options = {"hoodie.parquet.small.file.limit": "0"}
    for key in (21, 23, 25):
        table.write("insert", batch([key], 5), options=options)
    clean(table)
    table.write("insert", batch([27], 5), options=options)
    store = ListingStore(table.store())
    assert isinstance(plan_table_cleaning(opened(table, store), KEEP_ONE), NotDue)
    assert [path for path in store.listed if path != ".hoodie"] == []


def test_deleted_partitions_disappear_and_may_come_back(table: SmallTable) -> None:
    table.write("delete_partition", batch([0], 0))
    table.write("upsert", batch([1], 5))
    table.write("upsert", batch([1], 6))
    (done,) = clean(table)
    assert done.partitions_deleted == ("p0",)
    assert [info.path for info in table.store().list("p0")] == []
    table.write("upsert", batch([0], 7))
    assert ("k000", 7) in table.values()


def test_a_partition_written_to_after_the_plan_stays(table: SmallTable) -> None:
    table.write("delete_partition", batch([0], 0))
    table.write("upsert", batch([1], 5))
    table.write("upsert", batch([1], 6))
    requested = schedule_cleaning(opened(table), KEEP_ONE)
    assert isinstance(requested, Instant)
    table.write("upsert", batch([0], 7))
    done = execute_cleaning(opened(table), requested, KEEP_ONE)
    assert done.partitions_deleted == ()
    assert ("k000", 7) in table.values()


# Crashes


def writes_of_a_clean(table: SmallTable) -> int:
    trial = table.copy()
    faulty = FaultyStore(trial.store(), FaultPlan())
    clean_table(opened(trial, faulty), KEEP_ONE)
    trial.forget()
    return len(faulty.writes)


def test_a_clean_that_dies_before_or_after_any_write_is_finished_by_the_next(
    table: SmallTable,
) -> None:
    expected = table.copy()
    clean(expected)
    total = writes_of_a_clean(table)
    plans = [FaultPlan(crash_before_write=n) for n in range(1, total + 1)]
    for plan in (*plans, FaultPlan(crash_after_write=total)):
        trial = table.copy()
        rows = trial.rows()
        with pytest.raises(SimulatedCrash):
            clean_table(opened(trial, FaultyStore(trial.store(), plan)), KEEP_ONE)
        assert trial.rows() == rows
        trial.fake_clock.advance(LONG_S)
        trial.write("upsert", batch([50], 9))
        clean_table(opened(trial), KEEP_ONE)
        assert unexplained_objects(opened(trial)) == [], plan
        assert trial.values() == sorted([*expected.values(), ("k050", 9)]), plan
        assert all(instant.is_completed for instant in cleans(trial)), plan
        assert set(missing_files(expected_table := opened(trial))) >= set(
            missing_files(opened(expected))
        ), (plan, expected_table)
        trial.forget()
    expected.forget()


def test_a_store_that_goes_away_leaves_the_clean_pending(table: SmallTable) -> None:
    requested = schedule_cleaning(opened(table), KEEP_ONE)
    assert isinstance(requested, Instant)
    away = FaultyStore(table.store(), FaultPlan(unavailable_calls=frozenset(range(5, 9))))
    with pytest.raises(StorageUnavailableError):
        execute_cleaning(opened(table, away), requested, KEEP_ONE)
    assert [instant.is_completed for instant in cleans(table)] == [False]
    table.fake_clock.advance(LONG_S)
    assert len(clean(table)) == 1
    assert [instant.is_completed for instant in cleans(table)] == [True]


def test_files_that_are_gone_already_count_as_deleted(table: SmallTable) -> None:
    requested = schedule_cleaning(opened(table), KEEP_ONE)
    plan = plan_table_cleaning(opened(table), replace(KEEP_ONE, allows_several=True))
    assert isinstance(requested, Instant) and isinstance(plan, CleaningPlan)
    first, second = (file.path for files in plan.files.values() for file in files)
    table.store().delete(first)
    (done,) = clean(table)
    assert {file.path: file.size_bytes is None for file in done.files} == {
        first: True,
        second: False,
    }


def test_a_clean_whose_heartbeat_lives_is_left_to_its_process(table: SmallTable) -> None:
    requested = schedule_cleaning(opened(table), KEEP_ONE)
    assert isinstance(requested, Instant)
    with Heartbeat(table.store(), str(requested.time), table.clock):
        outcome = clean_table(opened(table), KEEP_ONE)
        assert isinstance(outcome, NotDue)
        assert str(requested.time) in outcome.reason
    assert [done.instant for done in clean(table)] == [requested.time]


def test_two_processes_may_execute_the_same_clean(table: SmallTable) -> None:
    requested = schedule_cleaning(opened(table), KEEP_ONE)
    assert isinstance(requested, Instant)
    first, second = opened(table), opened(table)
    execute_cleaning(first, requested, KEEP_ONE)
    execute_cleaning(second, requested.in_state(State.INFLIGHT), KEEP_ONE)
    assert [instant.is_completed for instant in cleans(table)] == [True]


def test_a_completed_clean_without_a_body_is_done_again(table: SmallTable) -> None:
    (done,) = clean(table)
    path = f".hoodie/{done.instant}.clean"
    table.store().put(path, b"")
    assert read_last_clean(opened(table), opened(table).timeline()) is None
    (again,) = clean(table)
    assert again.instant == done.instant
    assert table.store().get(path)


def test_a_truncated_plan_is_an_error_that_names_it(table: SmallTable) -> None:
    requested = schedule_cleaning(opened(table), KEEP_ONE)
    assert isinstance(requested, Instant)
    path = f".hoodie/{requested.time}.clean.requested"
    table.store().put(path, table.store().get(path)[:100])
    before = base_files(table)
    with pytest.raises(CorruptTableError, match="cannot be read") as caught:
        clean_table(opened(table), KEEP_ONE)
    assert caught.value.path == path
    assert base_files(table) == before


# What is written


def test_the_clean_says_what_hudi_wants_to_know(table: SmallTable) -> None:
    commits = opened(table).timeline().instants
    (done,) = clean(table)
    record = decode_container(table.store().get(f".hoodie/{done.instant}.clean"))
    assert record["earliestCommitToRetain"] == str(commits[-1].time)
    assert record["lastCompletedCommitTimestamp"] == str(commits[-1].time)
    assert record["totalFilesDeleted"] == 2
    partition = record["partitionMetadata"]["p0"]
    assert partition["successDeleteFiles"] == [file.path[3:] for file in done.files]
    assert partition["isPartitionDeleted"] is False
    assert table.store().get(f".hoodie/{done.instant}.clean.inflight") == b""
    last = read_last_clean(opened(table), opened(table).timeline())
    assert last is not None and last.earliest_retained == commits[-1].time


class ListingStore(FaultyStore):
    """Remembers what was listed: single directories, and sweeps of whole trees."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner, FaultPlan())
        self.listed: list[str] = []
        self.swept: list[str] = []

    def list_directory(self, prefix: str = "") -> Listing:
        self.listed.append(prefix)
        return super().list_directory(prefix)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        self.swept.append(prefix)
        return super().list(prefix)
