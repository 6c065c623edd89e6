"""Cleaning and restores of merge-on-read tables whose file slices other services rearrange."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tideline.hudi.services.cleaning.config import CleaningConfig, CleaningPolicy
from tideline.hudi.services.cleaning.execute import clean_table, plan_table_cleaning
from tideline.hudi.services.cleaning.plan import CleaningPlan
from tideline.hudi.services.clustering.config import ClusteringConfig
from tideline.hudi.services.clustering.execute import execute_clustering, schedule_clustering
from tideline.hudi.services.compaction.config import CompactionConfig
from tideline.hudi.services.compaction.execute import execute_compaction, schedule_compaction
from tideline.hudi.services.config import ServiceConfig
from tideline.hudi.services.log_compaction.config import LogCompactionConfig
from tideline.hudi.services.log_compaction.execute import (
    execute_log_compaction,
    schedule_log_compaction,
)
from tideline.hudi.services.restore.execute import preview_restore, restore_table
from tideline.hudi.services.savepoint.execute import create_savepoint
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.config import WriteConfig
from tideline.in_process.service_engine import InProcessServiceEngine
from tideline.services.explanation import NotDue
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

KEEP_ONE = CleaningConfig(commits_retained=1)
ONE = CompactionConfig(delta_commits_max=1)
SERVICE = ServiceConfig()


def opened(table: SmallTable, store: ObjectStore | None = None) -> HoodieTable:
    return open_fresh(table.location, store, table.clock)


def schedule(table: SmallTable, make: Callable[[HoodieTable], Instant | NotDue]) -> Instant:
    step(table)
    with opened(table).lock().acquire(timeout_s=5):
        instant = make(opened(table))
    assert isinstance(instant, Instant), instant
    return instant


def compact(table: SmallTable, instant: Instant | None = None) -> None:
    instant = instant or schedule(table, lambda fresh: schedule_compaction(fresh, ONE))
    fresh = opened(table)
    engine = InProcessServiceEngine(fresh, threads=1)
    execute_compaction(fresh, instant, engine, config=SERVICE, write_config=WriteConfig())


def compact_logs(table: SmallTable) -> None:
    config = LogCompactionConfig(blocks_min=1)
    instant = schedule(table, lambda fresh: schedule_log_compaction(fresh, config))
    fresh = opened(table)
    engine = InProcessServiceEngine(fresh, threads=1)
    execute_log_compaction(fresh, instant, engine, config=SERVICE, write_config=WriteConfig())


def cluster(table: SmallTable) -> None:
    instant = schedule(
        table, lambda fresh: schedule_clustering(fresh, ClusteringConfig(), commits_max=1)
    )
    fresh = opened(table)
    engine = InProcessServiceEngine(fresh, threads=1)
    execute_clustering(fresh, instant, engine, config=SERVICE, write_config=WriteConfig())


def step(table: SmallTable) -> None:
    table.fake_clock.advance(60)


def upsert(table: SmallTable, v: int, *keys: int) -> None:
    step(table)
    table.write("upsert", batch(keys, v))


def savepoint(table: SmallTable) -> InstantTime:
    return create_savepoint(opened(table)).instant


@pytest.fixture
def table() -> Iterator[SmallTable]:
    table = SmallTable.in_memory(
        {"hoodie.parquet.small.file.limit": "0"}, table_type=TableType.MERGE_ON_READ
    )
    table.write("insert", batch(range(6), 1))
    upsert(table, 2, 0, 1)
    yield table
    table.forget()


def later_life(table: SmallTable) -> None:
    """Every kind of write and service, one on top of the other."""
    upsert(table, 3, 0, 2)
    compact(table)
    upsert(table, 4, 0, 1)
    upsert(table, 5, 0, 7)
    compact_logs(table)
    upsert(table, 6, 1)
    cluster(table)
    upsert(table, 7, 0, 9)
    step(table)
    table.write("delete", batch([2], 0))
    schedule(table, lambda fresh: schedule_compaction(fresh, ONE))
    upsert(table, 8, 0)


def test_a_restore_undoes_what_services_did_as_well(table: SmallTable) -> None:
    time, before = savepoint(table), table.merged_values()
    later_life(table)
    assert table.merged_values() != before
    restore_table(opened(table), time)
    assert table.merged_values() == before
    upsert(table, 9, 0)
    compact(table)
    assert dict(table.merged_values()) == {**dict(before), "k000": 9}


def test_a_restore_undoes_a_commit_that_cannot_be_read(table: SmallTable) -> None:
    time, before = savepoint(table), table.merged_values()
    upsert(table, 3, 0, 2, 20)
    upsert(table, 4, 1)
    newest = opened(table).timeline().instants[-1]
    path = opened(table).timelines.path(newest)
    table.store().put(path, table.store().get(path)[:50])
    first = preview_restore(opened(table), time).undone[0]
    assert first.name.time == newest.time
    restore_table(opened(table), time)
    assert not len(opened(table).timeline().pending())
    assert table.merged_values() == before
    upsert(table, 9, 0)
    compact(table)
    assert dict(table.merged_values()) == {**dict(before), "k000": 9}


def test_delta_commits_on_top_of_a_compaction_pending_at_the_savepoint_stay(
    table: SmallTable,
) -> None:
    pending = schedule(table, lambda fresh: schedule_compaction(fresh, ONE))
    upsert(table, 3, 0)
    time, before = savepoint(table), table.merged_values()
    upsert(table, 4, 0, 1)
    restore_table(opened(table), time)
    assert table.merged_values() == before
    compact(table, pending)
    assert table.merged_values() == before


def test_a_compaction_that_was_pending_at_the_savepoint_and_ran_later_stays_done(
    table: SmallTable,
) -> None:
    pending = schedule(table, lambda fresh: schedule_compaction(fresh, ONE))
    upsert(table, 3, 0)
    time, before = savepoint(table), table.merged_values()
    compact(table, pending)
    upsert(table, 4, 0, 1)
    restore_table(opened(table), time)
    assert table.merged_values() == before
    assert opened(table).timeline().of(Action.COMMIT).completed().find(pending.time) is not None


def test_a_restore_over_services_may_die_at_any_write(table: SmallTable) -> None:
    time, before = savepoint(table), table.merged_values()
    later_life(table)
    rehearsal = table.copy()
    faulty = FaultyStore(rehearsal.store(), FaultPlan())
    restore_table(opened(rehearsal, faulty), time)
    rehearsal.forget()
    for number in range(1, len(faulty.writes) + 1):
        trial = table.copy()
        plan = FaultPlan(crash_before_write=number)
        with pytest.raises(SimulatedCrash):
            restore_table(opened(trial, FaultyStore(trial.store(), plan)), time)
        trial.fake_clock.advance(7200)
        restore_table(opened(trial), time)
        assert trial.merged_values() == before, number
        trial.forget()


def test_a_clean_takes_compacted_slices_with_their_logs(table: SmallTable) -> None:
    compact(table)
    upsert(table, 3, 0, 1)
    before = table.merged_values()
    done = clean_table(opened(table), KEEP_ONE)
    assert not isinstance(done, NotDue)
    kinds = {file.path.rpartition(".")[2] == "parquet" for file in done[0].files}
    assert kinds == {True, False}
    assert table.merged_values() == before


@pytest.mark.parametrize("policy", list(CleaningPolicy))
def test_what_a_pending_compaction_reads_is_never_cleaned(
    table: SmallTable, policy: CleaningPolicy
) -> None:
    compact(table)
    upsert(table, 3, 0, 1)
    pending = schedule(table, lambda fresh: schedule_compaction(fresh, ONE))
    for v in (4, 5, 6):
        upsert(table, v, 0, 1)
    before = table.merged_values()
    table.fake_clock.advance(7200)
    upsert(table, 6, 0)
    config = CleaningConfig(
        policy=policy, commits_retained=1, hours_retained=1, file_versions_retained=1
    )
    clean_table(opened(table), config)
    assert table.merged_values() == before
    compact(table, pending)
    assert table.merged_values() == before


def test_what_clustering_replaced_is_cleaned_once_it_is_old_enough(table: SmallTable) -> None:
    cluster(table)
    upsert(table, 3, 0, 1)
    before = table.merged_values()
    plan = plan_table_cleaning(opened(table), KEEP_ONE)
    assert isinstance(plan, CleaningPlan)
    clean_table(opened(table), KEEP_ONE)
    assert table.merged_values() == before
    view = opened(table).files.view(opened(table).timeline())
    live = {group.id for part in view.partitions for group in view.file_groups(part)}
    assert {group.id for part in view.partitions for group in view.all_file_groups(part)} == live
