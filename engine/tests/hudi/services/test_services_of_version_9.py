"""Services of a table whose logs are named after their own commits: what is read stays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.hudi.services.cleaning.config import CleaningConfig, CleaningPolicy
from tideline.hudi.services.cleaning.execute import clean_table
from tideline.hudi.services.compaction.config import CompactionConfig
from tideline.hudi.services.compaction.execute import execute_compaction, schedule_compaction
from tideline.hudi.services.config import ServiceConfig
from tideline.hudi.services.log_compaction.config import LogCompactionConfig
from tideline.hudi.services.log_compaction.execute import schedule_log_compaction
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.write.config import WriteConfig
from tideline.in_process.service_engine import InProcessServiceEngine
from tideline.services.explanation import NotDue
from tideline.testing.small_table import SmallTable, batch

ONE_VERSION = CleaningConfig(
    policy=CleaningPolicy.KEEP_LATEST_FILE_VERSIONS, file_versions_retained=1
)


@pytest.fixture
def table() -> Iterator[SmallTable]:
    table = SmallTable.in_memory(table_type=TableType.MERGE_ON_READ, table_version=9)
    table.write("insert", batch([0, 2], 1))
    for version in (2, 3):
        table.write("upsert", batch([0, 2], version))
    yield table
    table.forget()


def hoodie(table: SmallTable) -> HoodieTable:
    return table.lake().hoodie_table


def slices(table: SmallTable) -> tuple[FileSlice, ...]:
    opened = hoodie(table)
    (group,) = opened.files.read_view(opened.timeline()).all_file_groups("p0")
    return group.slices


def schedule(table: SmallTable) -> Instant:
    opened = hoodie(table)
    with opened.lock().acquire(timeout_s=0):
        instant = schedule_compaction(opened, CompactionConfig(delta_commits_max=1))
    assert isinstance(instant, Instant), instant
    return instant


def compact(table: SmallTable, instant: Instant) -> None:
    opened = hoodie(table)
    execute_compaction(
        opened,
        instant,
        InProcessServiceEngine(opened, threads=1),
        config=ServiceConfig(),
        write_config=WriteConfig(),
    )


def test_logs_are_named_after_their_commits_and_lie_in_one_slice(table: SmallTable) -> None:
    (file_slice,) = slices(table)
    first, second = file_slice.log_files
    assert file_slice.base_file is not None
    assert file_slice.base_file.instant < first.instant < second.instant
    assert (first.version, second.version) == (1, 1)


def test_cleaning_leaves_the_logs_of_the_newest_slice(table: SmallTable) -> None:
    before = [info.path for info in table.store().list("p0")]
    assert isinstance(clean_table(hoodie(table), ONE_VERSION), NotDue)
    assert [info.path for info in table.store().list("p0")] == before
    assert table.values() == [("k000", 3), ("k002", 3)]


def test_cleaning_takes_a_compacted_slice_with_its_logs(table: SmallTable) -> None:
    (old,) = slices(table)
    compact(table, schedule(table))
    done = clean_table(hoodie(table), ONE_VERSION)
    assert not isinstance(done, NotDue)
    assert {file.path for cleaning_done in done for file in cleaning_done.files} == {
        file.path for file in old.files
    }
    assert table.values() == [("k000", 3), ("k002", 3)]


def test_a_log_that_completes_after_a_compaction_was_planned_is_on_top_of_it(
    table: SmallTable,
) -> None:
    planned = schedule(table)
    table.write("upsert", batch([0], 4))
    compact(table, planned)
    newest, old = slices(table)
    assert [len(file_slice.log_files) for file_slice in (newest, old)] == [1, 2]
    assert newest.base_instant == planned.time
    assert table.values() == [("k000", 4), ("k002", 3)]
    clean_table(hoodie(table), ONE_VERSION)
    assert table.values() == [("k000", 4), ("k002", 3)]


def test_a_savepoint_is_restored(table: SmallTable) -> None:
    savepoint = table.lake().savepoint()
    table.write("upsert", batch([0], 4))
    compact(table, schedule(table))
    table.write("insert_overwrite", batch([2], 5))
    done = table.lake().restore(savepoint.instant)
    assert len(done.undone) == 3
    assert table.values() == [("k000", 3), ("k002", 3)]
    opened = hoodie(table)
    assert {log.instant for log in opened.files.log_files()} <= {
        instant.time for instant in opened.timeline().completed()
    }
    table.write("upsert", batch([0], 6))
    assert table.values() == [("k000", 6), ("k002", 3)]


def test_a_savepoint_is_restored_twice(table: SmallTable) -> None:
    """It names no log of a later commit, although these lie in its slice."""
    first = table.lake().timeline().first()
    assert first is not None
    savepoint = table.lake().savepoint(first.time)
    assert savepoint.file_count == 1
    for version in (6, 7):
        table.lake().restore(savepoint.instant)
        assert table.values() == [("k000", 1), ("k002", 1)]
        table.write("upsert", batch([0], version))
    assert table.values() == [("k000", 7), ("k002", 1)]


def test_what_a_log_compaction_holds_is_not_compacted(table: SmallTable) -> None:
    opened = hoodie(table)
    with opened.lock().acquire(timeout_s=0):
        planned = schedule_log_compaction(opened, LogCompactionConfig(blocks_min=1))
        assert isinstance(planned, Instant), planned
        assert isinstance(
            schedule_compaction(opened, CompactionConfig(delta_commits_max=1)), NotDue
        )


def test_expired_partitions_are_dropped_and_accounted_for(table: SmallTable) -> None:
    table.fake_clock.advance(10 * 86_400)
    options = {
        "hoodie.partition.ttl.inline": "true",
        "hoodie.partition.ttl.strategy.days.retain": "3",
    }
    run = table.lake().run("partition_ttl", options=options)
    assert run.not_due is None
    assert table.values() == []
