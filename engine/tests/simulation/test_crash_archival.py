"""Archival dies before its n-th write, for every n: no instant is lost, and the next run repairs.

Deaths of real processes are the same deaths: every write is one object, created or deleted.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tideline.hudi.services.archival.config import ArchivalConfig, HistoryConfig, MergeConfig
from tideline.hudi.services.archival.execute import archive_table
from tideline.hudi.services.archival.merge import has_unfinished_merge
from tideline.hudi.timeline.instant import Instant, State
from tideline.hudi.timeline.lsm_history import LsmHistory
from tideline.hudi.timeline.lsm_writer import history_leftovers
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing import writer_process
from tideline.testing.archival_process import run_archival
from tideline.testing.faulty_store import FaultPlan, FaultyStore, LostReply, SimulatedCrash
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

LONG_S = 3600.0
CONFIG = ArchivalConfig(commits_min=2, commits_max=3)
MERGING = ArchivalConfig(
    commits_min=1,
    commits_max=2,
    merge=MergeConfig(True, 2),
    history=HistoryConfig(files_per_merge=2, manifests_kept=2),
)
IN_PORTIONS = replace(MERGING, instants_per_portion=2)


@pytest.fixture(scope="module")
def prepared() -> Iterator[SmallTable]:
    """Five commits; archival takes three of them; two small archives are there already."""
    table = SmallTable.in_memory()
    for version in range(1, 12):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(4), version))
        if version in (4, 6):
            archive(table, config=CONFIG)
    yield table
    table.forget()


def archive(
    table: SmallTable, store: ObjectStore | None = None, config: ArchivalConfig = CONFIG
) -> None:
    opened = open_fresh(table.location, store, table.clock)
    archive_table(opened, config)


def completed(table: SmallTable) -> tuple[list[Instant], list[Instant]]:
    """Archived and active completed instants, oldest first."""
    opened = open_fresh(table.location, clock=table.clock)
    archived = opened.commits.archive().completed()
    return sorted(entry.instant for entry in archived), list(opened.timeline().completed())


def assert_nothing_lost(table: SmallTable, everything: list[Instant], when: str) -> None:
    archived, active = completed(table)
    assert sorted({*archived, *active}) == everything, when
    # No holes: what is left of the timeline are its newest commits.
    assert active == everything[-len(active) :], when
    assert len(archived) == len(set(archived)), when


@pytest.mark.slow_with("v9-in portions", "v9-merging")
@pytest.mark.parametrize(
    "config", [CONFIG, MERGING, IN_PORTIONS], ids=["plain", "merging", "in portions"]
)
def test_dying_before_any_write_loses_and_doubles_nothing(
    prepared: SmallTable, config: ArchivalConfig
) -> None:
    everything = sorted({*completed(prepared)[0], *completed(prepared)[1]})
    rows = prepared.values()
    intact = prepared.copy()
    counting = FaultyStore(intact.store())
    archive(intact, counting, config)
    final = completed(intact)
    intact.forget()
    assert len(final[0]) > len(completed(prepared)[0])
    for number in range(1, len(counting.writes) + 1):
        when = f"died before write {number}: {counting.writes[number - 1]}"
        table = prepared.copy()
        with pytest.raises(SimulatedCrash):
            archive(table, FaultyStore(table.store(), FaultPlan(crash_before_write=number)), config)
        assert_nothing_lost(table, everything, when)
        assert table.values() == rows, when
        table.fake_clock.advance(LONG_S)
        # Between portions there may be fewer left than would be due by themselves.
        archive(table, config=config.resume() if config is IN_PORTIONS else config)
        assert_nothing_lost(table, everything, when)
        archived, active = completed(table)
        assert not {*archived} & {*active}, when
        assert active == final[1], when
        assert not left_over(table), when
        assert not half_removed(table), when
        assert table.values() == rows, when
        table.forget()


def left_over(table: SmallTable) -> bool:
    """Whether a merge or a version of the archive is unfinished."""
    archived = open_fresh(table.location).commits.archive()
    if isinstance(archived, LsmHistory):
        return bool(history_leftovers(archived))
    return has_unfinished_merge(archived)


def half_removed(table: SmallTable) -> list[str]:
    """Objects of pending states whose completed object is archived."""
    states = open_fresh(table.location, clock=table.clock).timeline().made_ms
    done = {instant.time for instant in states if instant.state is State.COMPLETED}
    return [str(instant) for instant in states if instant.time not in done]


@pytest.mark.parametrize("lost", list(LostReply))
def test_a_lost_reply_of_any_conditional_write_is_harmless(
    prepared: SmallTable, lost: LostReply
) -> None:
    everything = sorted({*completed(prepared)[0], *completed(prepared)[1]})
    for number in range(1, 5):
        table = prepared.copy()
        plan = FaultPlan(lost_reply_of_conditional_write=number, lost_reply=lost)
        try:
            archive(table, FaultyStore(table.store(), plan), MERGING)
        except Exception as error:
            when = f"{lost} at {number}: {error}"
        else:
            when = f"{lost} at {number}"
        assert_nothing_lost(table, everything, when)
        table.fake_clock.advance(LONG_S)
        archive(table, config=MERGING)
        assert_nothing_lost(table, everything, when)
        archived, active = completed(table)
        assert not {*archived} & {*active}, when
        table.forget()


@pytest.mark.slow
def test_killed_processes_leave_what_the_next_run_repairs(tmp_path: Path) -> None:
    """On a local folder, where a file is written in steps and the kernel frees the lock."""
    table = SmallTable.create(StoreLocation.of(tmp_path / "prepared"))
    for version in range(1, 8):
        table.write("upsert", batch(range(4), version))
        if version == 4:
            archive(table, config=MERGING)
    everything = sorted({*completed(table)[0], *completed(table)[1]})
    rows = table.values()
    shutil.copytree(tmp_path / "prepared", tmp_path / "rehearsal")
    writes = run_archival(StoreLocation.of(tmp_path / "rehearsal"), MERGING, FaultPlan())
    for number in range(1, writes + 1):
        folder = tmp_path / f"killed-{number}"
        shutil.copytree(tmp_path / "prepared", folder)
        killed = SmallTable(StoreLocation.of(folder))
        plan = FaultPlan(crash_after_write=number, kill_process=True)
        process = writer_process.start(run_archival, killed.location, MERGING, plan)
        assert writer_process.join(process) == -signal.SIGKILL
        when = f"killed after write {number}"
        assert_nothing_lost(killed, everything, when)
        archive(killed, config=MERGING)
        assert_nothing_lost(killed, everything, when)
        assert killed.lake().check(keys=True) == (), when
        assert killed.values() == rows, when
