"""Cleans, savepoints and restores of one engine as the other sees them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.formats.avro import decode_container
from tideline.hudi.open_table import open_table
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.done import CleaningDone
from tideline.hudi.services.cleaning.execute import (
    clean_table,
    execute_cleaning,
    schedule_cleaning,
)
from tideline.hudi.services.cleaning.stored_plan import read_cleaning_plan
from tideline.hudi.services.past_cleans import read_last_clean
from tideline.hudi.services.restore.execute import restore_table, schedule_restore
from tideline.hudi.services.savepoint.execute import create_savepoint, list_savepoints
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.layout.known_layouts import TABLE_VERSION
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.services.explanation import NotDue
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer, metadata_table, version_options
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import stale_listing

pytestmark = [pytest.mark.interop, pytest.mark.slow]

COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ
KEEP_ONE = CleaningConfig(commits_retained=1)
NEVER = {"hoodie.clean.automatic": "false"}
AFTER_EACH = {"hoodie.clean.commits.retained": "1"}

Rows = list[tuple[str, int]]


@dataclass(frozen=True)
class Shared:
    """A table in a local folder that both engines write; ours in this process, without Spark."""

    small: SmallTable
    path: Path
    peer: HudiPeer
    version: int = TABLE_VERSION

    @classmethod
    def create(
        cls,
        folder: Path,
        peer: HudiPeer,
        table_type: TableType,
        version: int = TABLE_VERSION,
    ) -> Shared:
        path = folder / "shared"
        settings = {"hoodie.parquet.small.file.limit": "0", **metadata_table(version)}
        small = SmallTable.create(
            StoreLocation.of(path),
            properties=settings,
            table_type=table_type,
            table_version=version,
        )
        return cls(small, path, peer, version)

    @property
    def table(self) -> HoodieTable:
        return open_table(self.small.location)

    def write(self, rows: pa.Table, operation: str = "upsert") -> None:
        self.small.write(operation, rows)

    def write_with_hudi(
        self, rows: pa.Table, options: Mapping[str, str], operation: str = "upsert"
    ) -> None:
        described = {
            "hoodie.table.name": "shared",
            "hoodie.index.type": "SIMPLE",
            "hoodie.compact.inline": "false",
            **metadata_table(self.version),
            **version_options(self.version),
            **options,
        }
        self.peer.write(str(self.path), rows, operation=operation, options=described)

    def seen_by_hudi(self) -> Rows:
        return _rows(self.peer.read(str(self.path)))

    def check(self, expected: Rows) -> None:
        """Hudi and hudi-rs see these rows, and the metadata table, where one is kept, is right."""
        assert stale_listing(self.table) == []
        assert self.seen_by_hudi() == expected
        assert _rows(self.peer.read_with_hudi_rs(str(self.path))) == expected

    def files(self) -> set[str]:
        return {
            str(file.relative_to(self.path))
            for file in self.path.rglob("*")
            if file.is_file() and ".hoodie/" not in str(file) and not file.name.endswith(".crc")
        }

    def commits(self) -> list[InstantTime]:
        return [i.time for i in self.table.timeline().of(*COMMIT_ACTIONS).completed()]

    def call(self, procedure: str) -> pa.Table:
        """Run one of Hudi's SQL procedures; those take their settings from the session."""
        settings = {**version_options(self.version), **metadata_table(self.version)}
        for name, value in settings.items():
            self.peer.sql(f"SET {name}={value}")
        return self.peer.sql(f"CALL {procedure}")


def _rows(table: pa.Table) -> Rows:
    columns = (table.column("id").to_pylist(), table.column("v").to_pylist())
    return sorted(zip(*columns, strict=True))


def clean(shared: Shared) -> CleaningDone:
    done = clean_table(shared.table, KEEP_ONE)
    assert not isinstance(done, NotDue), done
    return done[-1]


@pytest.fixture(params=[(COW, 6), (MOR, 6), (COW, 9), (MOR, 9)], ids="{0[0]} v{0[1]}".format)
def shared(request: pytest.FixtureRequest, tmp_path: Path, hudi_peer: HudiPeer) -> Shared:
    shared = Shared.create(tmp_path, hudi_peer, *request.param)
    shared.write(batch(range(6), 1), "insert")
    shared.write(batch([0, 1], 2))
    shared.write(batch([0], 3), "insert_overwrite")
    shared.write(batch([0, 6], 4))
    shared.write(batch([1, 7], 5))
    return shared


EXPECTED = [("k000", 4), ("k001", 5), ("k003", 1), ("k005", 1), ("k006", 4), ("k007", 5)]


def test_hudi_reads_and_goes_on_after_our_clean(shared: Shared) -> None:
    shared.check(EXPECTED)
    before = shared.files()
    done = clean(shared)
    assert before - shared.files() == {file.path for file in done.files} != set()
    shared.check(EXPECTED)
    assert (str(done.instant), "clean", "COMPLETED") in {
        (i.time, i.action, i.state) for i in shared.peer.timeline(str(shared.path))
    }
    shared.write_with_hudi(batch([0], 8), AFTER_EACH)
    shared.write(batch([1], 9))
    shared.check(sorted([*EXPECTED[2:], ("k000", 8), ("k001", 9)]))


def test_hudi_executes_the_clean_that_we_planned(shared: Shared) -> None:
    requested = schedule_cleaning(shared.table, KEEP_ONE)
    assert isinstance(requested, Instant)
    doomed = _planned(shared, requested)
    assert doomed <= shared.files()
    shared.write_with_hudi(batch([0], 8), AFTER_EACH)
    assert doomed.isdisjoint(shared.files())
    done = shared.table.timeline().of(Action.CLEAN).completed()
    assert requested.time in [item.time for item in done]
    assert shared.seen_by_hudi() == sorted([*EXPECTED[1:], ("k000", 8)])


def _planned(shared: Shared, requested: Instant) -> set[str]:
    plan = read_cleaning_plan(shared.table, requested)
    return {file.path for files in plan.files.values() for file in files}


def test_we_execute_the_clean_that_hudi_planned(shared: Shared, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(shared.path, copy)
    shared.write_with_hudi(batch([0], 8), AFTER_EACH)
    cleaned = shared.table.timeline().of(Action.CLEAN).last()
    assert cleaned is not None and cleaned.is_completed
    doomed = _planned(shared, cleaned)
    # Back to where Hudi died after planning: the files are there, the clean is only requested.
    for path in doomed:
        shutil.copy(copy / path, shared.path / path)
    for state in (State.COMPLETED, State.INFLIGHT):
        shared.table.timelines.remove(cleaned.in_state(state))
    pending = shared.table.timeline().of(Action.CLEAN).pending().first()
    assert pending is not None
    done = execute_cleaning(shared.table, pending, KEEP_ONE)
    assert {file.path for file in done.files} == doomed
    assert doomed.isdisjoint(shared.files())
    last = read_last_clean(shared.table, shared.table.timeline())
    assert last is not None and last.time == pending.time
    shared.write_with_hudi(batch([1], 9), AFTER_EACH)
    assert shared.seen_by_hudi() == sorted([*EXPECTED[2:], ("k000", 8), ("k001", 9)])


def test_hudi_plans_what_we_plan(shared: Shared, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(shared.path, copy)
    shared.write_with_hudi(batch([0], 8), AFTER_EACH)
    cleaned = shared.table.timeline().of(Action.CLEAN).last()
    assert cleaned is not None
    hudis = _planned(shared, cleaned)
    for path in hudis:
        shutil.copy(copy / path, shared.path / path)
    record = _record(shared, cleaned)
    for state in reversed(State):
        shared.table.timelines.remove(cleaned.in_state(state))
    requested = schedule_cleaning(shared.table, KEEP_ONE)
    assert isinstance(requested, Instant)
    assert _planned(shared, requested) == hudis != set()
    ours = _record(shared, requested)
    files = "filePathsToBeDeletedPerPartition"
    assert {part: _paths(items) for part, items in ours.pop(files).items()} == {
        part: _paths(items) for part, items in record.pop(files).items() if items
    }
    assert {name: value or None for name, value in ours.items()} == {
        name: value or None for name, value in record.items()
    }


def _record(shared: Shared, instant: Instant) -> dict[str, Any]:
    path = shared.table.timelines.path(instant.in_state(State.REQUESTED))
    return decode_container(shared.table.store.get(path), "HoodieCleanerPlan")


def _paths(items: list[dict[str, Any]]) -> set[str]:
    """Hudi spells the scheme out where its metadata table lists the files."""
    return {item["filePath"].removeprefix("file:") for item in items}


def test_hudi_keeps_the_files_of_our_savepoint(shared: Shared) -> None:
    savepoint = create_savepoint(shared.table, shared.commits()[2])
    kept = {f"{part}/{name}" for part, names in savepoint.files.items() for name in names}
    for v in (8, 9, 10):
        shared.write_with_hudi(batch([0, 1], v), AFTER_EACH)
    assert kept <= shared.files()
    assert len(shared.table.timeline().of(Action.CLEAN).completed()) > 0


def test_we_keep_the_files_of_hudis_savepoint(shared: Shared) -> None:
    time = shared.commits()[2]
    shared.call(f"create_savepoint(path => '{shared.path}', commit_time => '{time}')")
    (savepoint,) = list_savepoints(shared.table)
    assert savepoint.instant == time and savepoint.is_completed
    kept = {f"{part}/{name}" for part, names in savepoint.files.items() for name in names}
    clean(shared)
    assert kept and kept <= shared.files()


def test_hudi_goes_on_with_a_table_that_we_restored(shared: Shared) -> None:
    time = shared.commits()[1]
    create_savepoint(shared.table, time)
    shared.write_with_hudi(batch([2, 3], 8), NEVER)
    restore_table(shared.table, time)
    old = [("k000", 2), ("k001", 2), ("k002", 1), ("k003", 1), ("k004", 1), ("k005", 1)]
    shared.check(old)
    shared.write_with_hudi(batch([0, 9], 9), NEVER)
    shared.write(batch([1], 9))
    shared.check(sorted([*old[2:], ("k000", 9), ("k001", 9), ("k009", 9)]))


def test_we_go_on_with_a_table_that_hudi_restored_to_our_savepoint(shared: Shared) -> None:
    time = shared.commits()[1]
    create_savepoint(shared.table, time)
    shared.call(f"rollback_to_savepoint(path => '{shared.path}', instant_time => '{time}')")
    assert shared.commits()[-1] == time
    shared.write(batch([1], 9))
    assert ("k001", 9) in shared.seen_by_hudi()


def test_a_restore_that_one_engine_began_is_finished_by_the_other(shared: Shared) -> None:
    time = shared.commits()[2]
    create_savepoint(shared.table, time)
    begun = schedule_restore(shared.table, time)
    shared.call(f"rollback_to_savepoint(path => '{shared.path}', instant_time => '{time}')")
    (restore,) = shared.table.timeline().of(Action.RESTORE)
    assert (restore.time, restore.is_completed) == (begun.time, True)
    assert shared.commits()[-1] == time
    before = shared.seen_by_hudi()
    shared.write_with_hudi(batch([0], 8), NEVER)
    # As if Hudi had died just before it completed another one.
    shared.call(f"rollback_to_savepoint(path => '{shared.path}', instant_time => '{time}')")
    last = shared.table.timeline().of(Action.RESTORE).last()
    assert last is not None and last.time > begun.time
    shared.table.timelines.remove(last)
    assert restore_table(shared.table, time).instant == last.time
    shared.check(before)
