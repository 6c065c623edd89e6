"""Which commits and files a range of completion times has, while writers overlap and archive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.errors import ConfigError
from tideline.hudi.read.incremental import plan_incremental
from tideline.hudi.read.table_scan import TableScan
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import archive_table
from tideline.hudi.services.cleaning.config import CleaningConfig, CleaningPolicy
from tideline.hudi.services.cleaning.execute import clean_table
from tideline.hudi.services.compaction.config import CompactionConfig
from tideline.hudi.services.compaction.execute import execute_compaction, schedule_compaction
from tideline.hudi.services.config import ServiceConfig
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.config import WriteConfig
from tideline.in_process.service_engine import InProcessServiceEngine
from tideline.testing.small_table import SmallTable, batch

NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}


@pytest.fixture(params=list(TableType), ids=str)
def table(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    table = SmallTable.in_memory(table_type=request.param, table_version=9)
    table.write("insert", batch(range(4), 1))
    yield table
    table.forget()


def plan(
    table: SmallTable, after: InstantTime | str, until: InstantTime | None = None
) -> TableScan:
    return plan_incremental(table.lake().hoodie_table, after, until)


def commits(table: SmallTable) -> tuple[Instant, ...]:
    return table.lake().timeline().of(*COMMIT_ACTIONS).completed().instants


def completed_at(instant: Instant) -> InstantTime:
    assert instant.completed_at is not None
    return instant.completed_at


def completes_when_requested(table: SmallTable, first: Instant, second: Instant) -> Instant:
    """`first` as if it had completed at the very time for which `second` was requested, as writers
    without a common lock or clock may leave it."""
    collided = first.in_state(State.COMPLETED, second.time)
    store, timelines = table.store(), table.lake().hoodie_table.timelines
    store.put(timelines.path(collided), store.get(timelines.path(first)))
    store.delete(timelines.path(first))
    return collided


def times(scan: TableScan) -> set[InstantTime]:
    assert scan.commits is not None
    return set(scan.commits.times or ())


def test_a_commit_that_was_requested_first_and_completes_last_is_not_missed(
    table: SmallTable,
) -> None:
    start = completed_at(commits(table)[0])
    table.write("upsert", batch([0], 2), before_files=lambda: table.write("upsert", batch([1], 3)))
    first, second = commits(table)[1:]
    assert completed_at(second) < completed_at(first)
    assert times(plan(table, start)) == {first.time, second.time}
    after_second = plan(table, completed_at(second))
    assert times(after_second) == {first.time}
    assert {file.partition for file in after_second.files} <= {"p0"}
    assert {file_slice.partition for file_slice in after_second.slices} <= {"p0"}
    assert times(plan(table, start, completed_at(second))) == {second.time}
    assert times(plan(table, completed_at(first))) == set()


def test_the_time_of_a_commit_stands_for_its_completion(table: SmallTable) -> None:
    table.write("upsert", batch([0], 2), before_files=lambda: table.write("upsert", batch([1], 3)))
    start, first, second = commits(table)
    assert times(plan(table, start.time)) == {first.time, second.time}
    assert times(plan(table, second.time)) == {first.time}
    assert times(plan(table, first.time)) == set()
    assert times(plan(table, start.time, second.time)) == {second.time}
    table.fake_clock.advance(60)
    for version in range(4, 9):
        table.write("upsert", batch([2], version))
    later = {commit.time for commit in commits(table)[3:]}
    config = ArchivalConfig(commits_min=2, commits_max=3, compaction_delta_commits=None)
    archived = {
        instant.time for instant in archive_table(table.lake().hoodie_table, config).instants
    }
    assert {first.time, second.time} < archived
    assert times(plan(table, second.time)) == {first.time, *later}
    assert times(plan(table, first.time)) == later


def test_a_time_is_a_completion_before_it_is_a_request(table: SmallTable) -> None:
    table.write("upsert", batch([0], 2), before_files=lambda: table.write("upsert", batch([1], 3)))
    _, first, second = commits(table)
    table.write("upsert", batch([2], 4))
    third = commits(table)[-1]
    completes_when_requested(table, first, third)
    lake = table.lake()
    assert times(plan(table, third.time)) == {third.time}
    assert times(plan(table, second.time, third.time)) == {first.time}
    assert lake.changes(third.time).read_all()["id"].to_pylist() == ["k002"] * 2
    assert set(lake.changes(second.time, third.time).read_all()["id"].to_pylist()) == {"k000"}
    table.fake_clock.advance(60)
    config = ArchivalConfig(commits_min=1, commits_max=2, compaction_delta_commits=None)
    done = archive_table(table.lake().hoodie_table, config)
    assert first.time in {instant.time for instant in done.instants}
    assert third.time in {commit.time for commit in commits(table)}
    assert times(plan(table, third.time)) == {third.time}
    assert lake.changes(third.time).read_all()["id"].to_pylist() == ["k002"] * 2


def test_an_archived_commit_that_completed_in_a_range_is_not_passed_over(table: SmallTable) -> None:
    """The one that was requested first is archived first, though it completed last."""
    table.write("upsert", batch([0], 2), before_files=lambda: table.write("upsert", batch([1], 3)))
    _, first, second = commits(table)
    table.fake_clock.advance(60)
    config = ArchivalConfig(commits_min=1, commits_max=2, compaction_delta_commits=None)
    archive_table(table.lake().hoodie_table, config)
    assert [commit.time for commit in commits(table)] == [second.time]
    scan = plan(table, completed_at(second))
    assert scan.commits is not None
    assert (times(scan), scan.commits.until) == ({first.time}, completed_at(first))
    with pytest.raises(ConfigError, match=f"begin after is {completed_at(first)}"):
        table.lake().changes(completed_at(second))
    assert table.lake().changes(completed_at(first)).read_all().num_rows == 0


def test_the_end_of_a_range_is_the_beginning_of_the_next(table: SmallTable) -> None:
    seen: list[InstantTime] = []
    after: InstantTime | str = "0"
    for version in range(2, 6):
        table.write("upsert", batch([version % 4], version))
        scan = plan(table, after)
        assert scan.commits is not None
        seen += times(scan)
        after = scan.commits.until
    assert sorted(seen) == [commit.time for commit in commits(table)]


def test_as_of_an_end_later_files_are_left_out(table: SmallTable) -> None:
    table.write("upsert", batch([0], 2))
    end = completed_at(commits(table)[-1])
    before = plan(table, "0")
    table.write("upsert", batch([0, 2], 3))
    scan = plan(table, "0", end)
    assert (scan.files, scan.slices) == (before.files, before.slices)
    assert times(scan) == times(before)


def test_files_that_were_cleaned_since_are_missed_by_name(table: SmallTable) -> None:
    end = completed_at(commits(table)[0])
    for version in range(2, 5):
        table.write("insert_overwrite", batch([0, 2], version))
    config = CleaningConfig(
        policy=CleaningPolicy.KEEP_LATEST_FILE_VERSIONS, file_versions_retained=1
    )
    clean_table(table.lake().hoodie_table, config)
    with pytest.raises(ConfigError, match="have been cleaned"):
        plan(table, "0", end)


def test_logs_whose_base_file_was_cleaned_are_not_read_alone() -> None:
    """A range that ends before a compaction does: its base file is not part of it yet."""
    table = SmallTable.in_memory(table_type=TableType.MERGE_ON_READ, table_version=9)
    table.write("insert", batch([0, 2], 1))
    table.write("upsert", batch([0], 2))
    opened = table.lake().hoodie_table
    with opened.lock().acquire(timeout_s=0):
        planned = schedule_compaction(opened, CompactionConfig(delta_commits_max=1))
    assert isinstance(planned, Instant), planned
    table.write("upsert", batch([2], 3))
    end = completed_at(commits(table)[-1])
    start = completed_at(commits(table)[0])
    assert len(times(plan(table, start, end))) == 2
    execute_compaction(
        opened,
        planned,
        InProcessServiceEngine(opened, threads=1),
        config=ServiceConfig(),
        write_config=WriteConfig(),
    )
    assert len(times(plan(table, start, end))) == 2
    config = CleaningConfig(
        policy=CleaningPolicy.KEEP_LATEST_FILE_VERSIONS, file_versions_retained=1
    )
    clean_table(opened, config)
    with pytest.raises(ConfigError, match="have been cleaned"):
        plan(table, start, end)
    table.forget()


def test_archived_commits_are_part_of_a_range_without_an_end(table: SmallTable) -> None:
    for version in range(2, 8):
        table.fake_clock.advance(60)
        table.write("upsert", batch([version % 4], version))
    everything = commits(table)
    done = archive_table(
        table.lake().hoodie_table,
        ArchivalConfig(commits_min=2, commits_max=3, compaction_delta_commits=None),
    )
    assert len(done.instants) > 2
    assert times(plan(table, "0")) == {instant.time for instant in everything}
    second = completed_at(everything[1])
    assert times(plan(table, second)) == {instant.time for instant in everything[2:]}
    with pytest.raises(ConfigError, match="no end can be given"):
        plan(table, "0", second)
    store = table.store()
    newest_version = store.get(".hoodie/timeline/history/_version_")
    # Hudi deletes it before it writes it again.
    store.delete(".hoodie/timeline/history/_version_")
    assert times(plan(table, "0")) == {instant.time for instant in everything}
    store.put(".hoodie/timeline/history/_version_", newest_version)
    table.fake_clock.advance(60)
    table.write("upsert", batch([0], 9))
    newest = commits(table)[-1]
    assert times(plan(table, completed_at(everything[-1]))) == {newest.time}
