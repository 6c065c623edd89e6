"""Cleaning while others write: a commit at every moment of a clean, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tideline.errors import ConflictError
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.execute import clean_table
from tideline.hudi.services.restore.execute import restore_table
from tideline.hudi.services.savepoint.execute import create_savepoint, delete_savepoint
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, WRITE_ACTIONS
from tideline.services.explanation import NotDue
from tideline.storage.location import StoreLocation
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.stepping_store import Step, SteppingStore
from tideline.testing.table_audit import open_fresh, unexplained_objects

pytest_plugins = ["tideline.testing.minio_fixtures"]

KEEP_ONE = CleaningConfig(commits_retained=1)
LONG_S = 3600.0


@pytest.fixture(scope="module")
def prepared() -> Iterator[SmallTable]:
    table = SmallTable.in_memory()
    table.write("insert", batch(range(6), 1))
    for v in (2, 3):
        table.write("upsert", batch([0, 1], v))
    yield table
    table.forget()


def clean_with(table: SmallTable, number: int, act: Callable[[], object]) -> int:
    """Clean; before its n-th call on the store, `act`. Returns how many calls there were."""
    calls = 0

    def before(_: Step) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            act()

    store = SteppingStore(table.store(), before)
    clean_table(open_fresh(table.location, store, table.clock), KEEP_ONE)
    return calls


def test_a_commit_at_any_moment_of_a_clean_keeps_its_rows(prepared: SmallTable) -> None:
    rehearsal = prepared.copy()
    calls = clean_with(rehearsal, 0, lambda: None)
    rehearsal.forget()
    waited = 0
    for number in range(1, calls + 1):
        table = prepared.copy()
        written = False

        def write(table: SmallTable = table) -> None:
            nonlocal written, waited
            try:
                table.write("upsert", batch([0, 1, 30], 7), options={
                    "hoodie.write.lock.wait_time_ms": "1"})  # fmt: skip
                written = True
            except ConflictError:
                # The clean has the lock just then.
                waited += 1

        clean_with(table, number, write)
        before = {"k000": 3, "k001": 3, **{f"k{n:03d}": 1 for n in range(2, 6)}}
        now = {"k000": 7, "k001": 7, "k030": 7} if written else {}
        assert table.values() == sorted({**before, **now}.items()), number
        table.fake_clock.advance(LONG_S)
        table.write("upsert", batch([1], 8))
        clean_table(open_fresh(table.location, clock=table.clock), KEEP_ONE)
        assert unexplained_objects(open_fresh(table.location, clock=table.clock)) == [], number
        table.forget()
    assert 0 < waited < calls


def test_a_write_that_was_pending_all_the_time_keeps_what_it_reads(prepared: SmallTable) -> None:
    """It began before the clean was planned, merges into the files it found, and commits after."""
    table = prepared.copy()

    def clean_now() -> None:
        table.fake_clock.advance(1)
        clean_table(open_fresh(table.location, clock=table.clock), KEEP_ONE)

    table.write("upsert", batch([0, 1], 9), before_files=clean_now)
    assert ("k000", 9) in table.values() and ("k002", 1) in table.values()
    table.forget()


@pytest.mark.minio
@pytest.mark.parametrize("table_type", list(TableType), ids=str)
def test_on_s3_with_its_whole_seconds(s3_location: StoreLocation, table_type: TableType) -> None:
    """Objects have modification times of whole seconds there; what follows is all within a few."""
    settings = {"hoodie.parquet.small.file.limit": "0", "hoodie.compact.inline": "false"}
    table = SmallTable.create(s3_location, properties=settings, table_type=table_type)
    table.write("insert", batch(range(6), 1))
    savepoint = create_savepoint(open_fresh(table.location))
    table.write("insert_overwrite", batch([0, 1], 2))
    table.write("upsert", batch([0, 1], 3))
    table.write("upsert", batch([0, 1], 4))
    opened = open_fresh(table.location)
    clean_table(opened, KEEP_ONE)
    done = restore_table(opened, savepoint.instant)
    assert len(done.undone) == 3
    writes = opened.timeline().of(*WRITE_ACTIONS)
    assert [item.time for item in writes] == [savepoint.instant]
    assert table.values() == [(f"k{n:03d}", 1) for n in range(6)]
    delete_savepoint(opened, savepoint.instant)
    table.write("insert_overwrite", batch([0, 1], 5))
    table.write("insert_overwrite", batch([0, 1], 6))
    cleaned = clean_table(opened, KEEP_ONE)
    assert not isinstance(cleaned, NotDue)
    assert sum(done.bytes_deleted for done in cleaned) > 0
    assert len(opened.timeline().of(*COMMIT_ACTIONS)) == 3
    assert table.values() == [("k000", 6), ("k001", 6)]
