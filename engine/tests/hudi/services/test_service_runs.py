"""Compaction, log compaction and clustering from plan to commit, by the in-process engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import (
    ConflictError,
    CorruptTableError,
    StorageUnavailableError,
)
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.recovery.undo import instants_in_log
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import execute_archival
from tideline.hudi.services.audit import ServiceDone
from tideline.hudi.services.clustering.config import ClusteringConfig
from tideline.hudi.services.clustering.execute import (
    UpdatedMeanwhileError,
    execute_clustering,
    schedule_clustering,
)
from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.services.compaction.config import CompactionConfig
from tideline.hudi.services.compaction.execute import execute_compaction, schedule_compaction
from tideline.hudi.services.config import ServiceConfig
from tideline.hudi.services.log_compaction.config import LogCompactionConfig
from tideline.hudi.services.log_compaction.execute import (
    execute_log_compaction,
    plan_due_log_compaction,
    schedule_log_compaction,
)
from tideline.hudi.services.log_compaction.plan import LogCompactionPlan
from tideline.hudi.services.service_transaction import ServiceTransaction
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.markers import Marker, MarkerKind, create_marker
from tideline.hudi.table.row_layout import RowLayout
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.layout_v1 import LAYOUT_V1
from tideline.hudi.write.config import WriteConfig
from tideline.services.explanation import NotDue
from tideline.storage.heartbeat import Heartbeat
from tideline.testing.faulty_store import FaultyStore
from tideline.testing.observed_service_engine import ObservedServiceEngine
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh, traces_of

pytestmark = pytest.mark.usefixtures("version_6")

ONE_COMMIT = CompactionConfig(delta_commits_max=1)
SERVICE = ServiceConfig()


def hoodie(table: SmallTable) -> HoodieTable:
    return open_fresh(table.location, clock=table.clock)


def schedule(table: SmallTable, make: Callable[[HoodieTable], Instant | NotDue]) -> Instant:
    fresh = hoodie(table)
    with fresh.lock().acquire(timeout_s=5):
        instant = make(fresh)
    assert isinstance(instant, Instant), instant
    return instant


def compact(table: SmallTable, config: CompactionConfig = ONE_COMMIT) -> ServiceDone:
    instant = schedule(table, lambda fresh: schedule_compaction(fresh, config))
    return run_compaction(table, instant)


def run_compaction(
    table: SmallTable, instant: Instant, after_files: Callable[[], object] = lambda: None
) -> ServiceDone:
    fresh = hoodie(table)
    engine = ObservedServiceEngine(fresh, after_files)
    return execute_compaction(fresh, instant, engine, config=SERVICE, write_config=WriteConfig())


def cluster(
    table: SmallTable,
    config: ClusteringConfig,
    between: Callable[[], None] | None = None,
    after_files: Callable[[], object] = lambda: None,
) -> ServiceDone:
    instant = schedule(table, lambda fresh: schedule_clustering(fresh, config, commits_max=1))
    if between is not None:
        between()
    fresh = hoodie(table)
    engine = ObservedServiceEngine(fresh, after_files)
    return execute_clustering(fresh, instant, engine, config=SERVICE, write_config=WriteConfig())


@pytest.fixture
def mor() -> Iterator[SmallTable]:
    """Two partitions, base files and two delta commits on top of them, one with deletes."""
    table = SmallTable.in_memory(table_type=TableType.MERGE_ON_READ)
    table.write("insert", batch(range(10), 1))
    table.write("upsert", batch([0, 1, 2, 20], 2))
    table.write("delete", batch([3, 4], 0))
    yield table
    table.forget()


@pytest.fixture
def cow() -> Iterator[SmallTable]:
    table = SmallTable.in_memory({"hoodie.parquet.small.file.limit": "0"})
    for start in (0, 10, 20):
        table.write("insert", batch(range(start, start + 10), start))
    yield table
    table.forget()


def test_a_compaction_changes_no_row_and_leaves_no_log_to_merge(mor: SmallTable) -> None:
    before = mor.merged_values()
    done = compact(mor)
    assert mor.merged_values() == before == mor.values()
    assert done.metrics.rows_written == len(before)
    fresh = hoodie(mor)
    timeline = fresh.timeline()
    view = fresh.files.view(timeline)
    assert not any(p.log_files for part in view.partitions for p in view.latest_slices(part))
    commit = timeline.find(done.instant)
    assert commit == Instant(done.instant, Action.COMMIT, State.COMPLETED)
    metadata = fresh.timelines.read_commit(commit)
    assert metadata.compacted
    assert metadata.operation_type == "COMPACT"
    assert metadata.extra_metadata["tideline.service.name"] == "compaction"


def test_rows_keep_their_commit_time_through_a_compaction(mor: SmallTable) -> None:
    done = compact(mor)
    written = [file.path for file in done.files if file.what == "written"]
    store = hoodie(mor).store
    times = set()
    for path in written:
        with store.open_reader(path) as stream:
            rows = pq.read_table(stream)
        times |= set(rows.column("_hoodie_commit_time").to_pylist())
        assert set(rows.column("_hoodie_file_name").to_pylist()) == {path.rpartition("/")[2]}
    assert str(done.instant) not in times
    assert len(times) == 2


def test_the_stats_of_a_compaction_say_what_was_merged(mor: SmallTable) -> None:
    done = compact(mor)
    fresh = hoodie(mor)
    commit = Instant(done.instant, Action.COMMIT, State.COMPLETED)
    stats = fresh.timelines.read_commit(commit).write_stats
    assert sum(stat.num_deletes for stat in stats) == 2
    # The new key went to the base file of its partition, with the updates there.
    assert sum(stat.num_update_writes for stat in stats) == 1
    assert all(stat.prev_commit != "null" for stat in stats)
    assert sum(stat.total_log_files_compacted for stat in stats) == 3


def test_writes_go_on_above_a_pending_compaction(mor: SmallTable) -> None:
    instant = schedule(mor, lambda fresh: schedule_compaction(fresh, ONE_COMMIT))
    mor.write("upsert", batch([1, 5, 30], 7))
    seen = mor.merged_values()
    assert ("k005", 7) in seen
    run_compaction(mor, instant)
    assert mor.merged_values() == seen
    compact(mor)
    assert mor.merged_values() == seen == mor.values()


@pytest.mark.parametrize("is_deleted_again", [False, True])
def test_a_key_deleted_before_a_pending_compaction_and_written_after_it_is_there_once(
    mor: SmallTable, is_deleted_again: bool
) -> None:
    """The compacted base file lacks the key, so it must not be in a log on top of it alone."""
    mor.write("delete", batch([1], 0))
    instant = schedule(mor, lambda fresh: schedule_compaction(fresh, ONE_COMMIT))
    mor.write("upsert", batch([1], 8))
    if is_deleted_again:
        mor.write("delete", batch([1], 0))
        mor.write("upsert", batch([1], 8))
    assert mor.merged_values().count(("k001", 8)) == 1
    run_compaction(mor, instant)
    mor.write("upsert", batch([1], 9))
    compact(mor)
    mor.write("upsert", batch([1], 10))
    assert [row for row in mor.values() if row[0] == "k001"] == [("k001", 10)]
    assert mor.lake().check(keys=True) == ()


def test_a_key_deleted_while_a_compaction_is_pending_is_there_once_when_it_comes_back(
    mor: SmallTable,
) -> None:
    """Here the compacted base file has it, under a log that deletes it."""
    instant = schedule(mor, lambda fresh: schedule_compaction(fresh, ONE_COMMIT))
    mor.write("delete", batch([1], 0))
    mor.write("upsert", batch([1], 8))
    run_compaction(mor, instant)
    mor.write("delete", batch([1], 0))
    mor.write("upsert", batch([1], 9))
    assert [row for row in mor.values() if row[0] == "k001"] == [("k001", 9)]
    assert mor.lake().check(keys=True) == ()


def test_a_second_plan_leaves_the_groups_of_a_pending_one_alone(mor: SmallTable) -> None:
    schedule(mor, lambda fresh: schedule_compaction(fresh, ONE_COMMIT))
    mor.write("upsert", batch([1, 5], 7))
    fresh = hoodie(mor)
    with fresh.lock().acquire(timeout_s=5):
        assert isinstance(schedule_compaction(fresh, ONE_COMMIT), NotDue)


def test_a_live_compaction_is_not_run_twice(mor: SmallTable) -> None:
    instant = schedule(mor, lambda fresh: schedule_compaction(fresh, ONE_COMMIT))

    def second() -> None:
        with pytest.raises(ConflictError, match="another process"):
            run_compaction(mor, instant)

    run_compaction(mor, instant, after_files=second)
    with pytest.raises(ConflictError, match="done already"):
        run_compaction(mor, instant)


def test_a_failed_attempt_keeps_its_plan_and_leaves_nothing_else(mor: SmallTable) -> None:
    before = mor.merged_values()
    instant = schedule(mor, lambda fresh: schedule_compaction(fresh, ONE_COMMIT))

    def fail() -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        run_compaction(mor, instant, after_files=fail)
    fresh = hoodie(mor)
    assert fresh.timeline().find(instant.time) == instant
    assert not [f for f in fresh.files.base_files() if f.instant == instant.time]
    assert mor.merged_values() == before
    run_compaction(mor, instant)
    assert mor.merged_values() == before


def test_a_dead_attempt_is_undone_and_run_again(mor: SmallTable) -> None:
    before = mor.merged_values()
    instant = schedule(mor, lambda fresh: schedule_compaction(fresh, ONE_COMMIT))
    fresh = hoodie(mor)
    heartbeat = Heartbeat(fresh.store, str(instant.time), mor.clock)
    heartbeat.start()
    fresh.timelines.to_inflight(instant)
    heartbeat.lapse()
    mor.fake_clock.advance(3600)
    run_compaction(mor, instant)
    assert mor.merged_values() == before


def test_a_missing_log_file_is_named(mor: SmallTable) -> None:
    instant = schedule(mor, lambda fresh: schedule_compaction(fresh, ONE_COMMIT))
    fresh = hoodie(mor)
    log = fresh.files.log_files()[0]
    fresh.store.delete(log.path)
    with pytest.raises(CorruptTableError, match="missing") as caught:
        run_compaction(mor, instant)
    assert caught.value.path == log.path


def test_a_truncated_plan_is_named(mor: SmallTable) -> None:
    instant = schedule(mor, lambda fresh: schedule_compaction(fresh, ONE_COMMIT))
    store, path = mor.store(), f".hoodie/{instant.time}.compaction.requested"
    store.put(path, store.get(path)[:100])
    with pytest.raises(CorruptTableError) as caught:
        run_compaction(mor, instant)
    assert caught.value.path == path


def test_a_log_compaction_changes_no_row(mor: SmallTable) -> None:
    before = mor.merged_values()
    config = LogCompactionConfig(blocks_min=2)
    instant = schedule(mor, lambda fresh: schedule_log_compaction(fresh, config))
    fresh = hoodie(mor)
    engine = ObservedServiceEngine(fresh)
    done = execute_log_compaction(
        fresh, instant, engine, config=SERVICE, write_config=WriteConfig()
    )
    assert mor.merged_values() == before
    commit = Instant(done.instant, Action.DELTACOMMIT, State.COMPLETED)
    assert fresh.timelines.read_commit(commit).operation_type == "LOG_COMPACT"
    mor.write("upsert", batch([1, 5], 7))
    seen = mor.merged_values()
    compact(mor)
    assert mor.merged_values() == seen == mor.values()


def test_many_blocks_in_one_log_file_are_reason_enough_to_compact_logs(mor: SmallTable) -> None:
    """Ours have a file a commit; Hudi continues in the file that is there."""
    fresh, config = hoodie(mor), LogCompactionConfig(blocks_min=2)
    before = mor.merged_values()
    view = fresh.files.view(fresh.timeline())
    for file_slice in (
        file_slice for part in view.partitions for file_slice in view.latest_slices(part)
    ):
        bodies = [fresh.store.get(log.path) for log in file_slice.log_files]
        for log in file_slice.log_files:
            fresh.store.delete(log.path)
        if bodies:
            fresh.store.put(file_slice.log_files[0].path, b"".join(bodies))
    assert mor.merged_values() == before
    plan = plan_due_log_compaction(fresh, fresh.timeline(), config)
    assert isinstance(plan, LogCompactionPlan)
    assert {len(item.slice.log_files) for item in plan.operations} == {1}
    one_more = LogCompactionConfig(blocks_min=len(bodies) + 1)
    assert isinstance(plan_due_log_compaction(fresh, fresh.timeline(), one_more), NotDue)


@pytest.mark.parametrize("layout", RowLayout)
def test_clustering_changes_no_row_and_replaces_every_group(
    cow: SmallTable, layout: RowLayout
) -> None:
    before = cow.values()
    done = cluster(cow, ClusteringConfig(sort_columns=("v", "id"), layout=layout))
    assert cow.values() == before
    fresh = hoodie(cow)
    view = fresh.files.view(fresh.timeline())
    assert [len(view.latest_base_files(part)) for part in view.partitions] == [1, 1]
    metadata = fresh.timelines.read_commit(
        Instant(done.instant, Action.REPLACECOMMIT, State.COMPLETED)
    )
    assert metadata.operation_type == "CLUSTER"
    replaced = metadata.partition_to_replace_file_ids
    assert replaced is not None
    assert {part: len(ids) for part, ids in replaced.items()} == {"p0": 3, "p1": 3}


def test_clustering_sorts_and_keeps_commit_times(cow: SmallTable) -> None:
    done = cluster(cow, ClusteringConfig(sort_columns=("id",)))
    store = hoodie(cow).store
    for file in done.files:
        if file.what == "written":
            with store.open_reader(file.path) as stream:
                rows = pq.read_table(stream)
            ids = rows.column("id").to_pylist()
            assert ids == sorted(ids)
            assert len(set(rows.column("_hoodie_commit_time").to_pylist())) == 3


def test_clustering_merges_the_logs_it_reads(mor: SmallTable) -> None:
    before = mor.merged_values()
    cluster(mor, ClusteringConfig(sort_columns=("v",)))
    assert mor.merged_values() == before == mor.values()


def test_a_column_that_a_write_added_while_clustering_ran_stays(cow: SmallTable) -> None:
    """The clustering is the newer instant, and began before the column was there."""
    begun: list[tuple[ServiceTransaction, str]] = []

    def begin() -> None:
        instant = schedule(
            cow, lambda fresh: schedule_clustering(fresh, ClusteringConfig(), commits_max=1)
        )
        fresh = hoodie(cow)
        transaction = ServiceTransaction.begin(
            fresh,
            instant,
            SERVICE,
            operation=Permission.CLUSTERING,
        )
        begun.append((transaction, fresh.schemas.newest_json(transaction.timeline) or ""))

    rows = batch([40], 4).append_column("note", pa.array(["new"]))
    cow.write("insert", rows, after_files=begin)
    ((transaction, schema_json),) = begun
    assert "note" not in schema_json
    transaction.commit([], operation_type="CLUSTER", schema_json=schema_json, extra_metadata={})
    fresh = hoodie(cow)
    schema = fresh.schemas.newest(fresh.timeline())
    assert schema is not None
    assert schema.names == [*batch([], 0).schema.names, "note"]


def test_a_write_that_won_makes_the_clustering_give_up_its_plan(cow: SmallTable) -> None:
    options = {"hoodie.clustering.updates.strategy": "SparkAllowUpdateStrategy"}

    def update() -> None:
        cow.write("upsert", batch([1], 99), options=options)

    with pytest.raises(UpdatedMeanwhileError):
        cluster(cow, ClusteringConfig(), after_files=update)
    assert ("k001", 99) in cow.values()
    assert not len(hoodie(cow).timeline().pending())
    with pytest.raises(UpdatedMeanwhileError):
        cluster(cow, ClusteringConfig(), between=update)
    assert not len(hoodie(cow).timeline().pending())


WITHDRAWS = {
    "hoodie.clustering.updates.strategy": "SparkAllowUpdateStrategy",
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true",
}


def late_file(table: SmallTable, instant: InstantTime) -> str:
    """A file of the clustering that appears after the rollback, which took its marker along."""
    name = f"22222222-2222-2222-2222-222222222222-0_0-0-0_{instant}.parquet"
    table.store().put(f"p1/{name}", b"rows")
    return f"p1/{name}"


def test_a_clustering_withdrawn_while_it_writes_leaves_nothing_and_says_so(cow: SmallTable) -> None:
    """Its files go under its hands; the engine may fail in any way, it is a conflict."""
    late = []

    def update() -> None:
        (pending,) = hoodie(cow).timeline().pending()
        cow.write("upsert", batch([1], 99), options=WITHDRAWS)
        late.append(late_file(cow, pending.time))
        raise StorageUnavailableError("the file is gone")

    with pytest.raises(ConflictError, match="rolled back by another process"):
        cluster(cow, ClusteringConfig(), after_files=update)
    assert ("k001", 99) in cow.values()
    assert cow.store().head(late[0]) is None
    assert not len(hoodie(cow).timeline().pending())
    assert cow.lake().check(keys=True) == ()


def test_a_plan_withdrawn_before_it_could_be_read_is_a_conflict(cow: SmallTable) -> None:
    instant = schedule(
        cow, lambda fresh: schedule_clustering(fresh, ClusteringConfig(), commits_max=1)
    )
    path = LAYOUT_V1.path(instant)

    class Withdrawing(FaultyStore):
        """The plan is there when it is looked for, and gone when it is to be run."""

        def get(self, wanted: str) -> bytes:
            body = super().get(wanted)
            if wanted == path:
                cow.store().delete(path)
            return body

    services = local_services(cow, {}, Withdrawing(cow.store()))
    with pytest.raises(ConflictError, match="withdrawn by another process"):
        services.run_pending(CLUSTERING)


def test_a_log_that_is_gone_holds_nothing_to_undo(mor: SmallTable) -> None:
    log = hoodie(mor).files.log_files()[0]
    assert instants_in_log(mor.store(), log)
    mor.store().delete(log.path)
    assert instants_in_log(mor.store(), log) is None


def test_a_withdrawn_clustering_never_counts_as_archived_while_it_writes(cow: SmallTable) -> None:
    """Otherwise everything in it would be there twice, for every reader in between."""
    seen = []

    def update() -> None:
        (pending,) = hoodie(cow).timeline().pending()
        for number in range(8):
            cow.write("upsert", batch([number], 99), options=WITHDRAWS)
        fresh = hoodie(cow)
        with fresh.lock().acquire(timeout_s=5):
            execute_archival(fresh, ArchivalConfig(commits_min=2, commits_max=3))
        seen.append((pending.time, hoodie(cow).timeline()))
        raise StorageUnavailableError("the file is gone")

    with pytest.raises(ConflictError, match="rolled back by another process"):
        cluster(cow, ClusteringConfig(), after_files=update)
    ((withdrawn, timeline),) = seen
    assert timeline.has_archive
    assert not timeline.is_committed(withdrawn)


def test_what_a_withdrawn_clustering_still_wrote_before_it_died_is_swept_away(
    cow: SmallTable,
) -> None:
    instant = schedule(
        cow, lambda fresh: schedule_clustering(fresh, ClusteringConfig(), commits_max=1)
    )
    fresh = hoodie(cow)
    heartbeat = Heartbeat(fresh.store, str(instant.time), cow.clock)
    heartbeat.start()
    fresh.timelines.to_inflight(instant)
    path = f"22222222-2222-2222-2222-222222222222-0_0-0-0_{instant.time}.parquet"
    create_marker(fresh.store, instant.time, Marker("p1", path, MarkerKind.CREATE))
    report = cow.write("upsert", batch([1], 99), options=WITHDRAWS)
    assert report.rolled_back == (str(instant.time),)
    assert late_file(cow, instant.time) == f"p1/{path}"
    cow.write("upsert", batch([2], 99))
    assert fresh.store.head(f"p1/{path}") is not None
    heartbeat.lapse()
    cow.fake_clock.advance(3600)
    cow.write("upsert", batch([3], 99))
    assert traces_of(fresh.store, instant.time) == []
    assert cow.lake().check(keys=True) == ()
