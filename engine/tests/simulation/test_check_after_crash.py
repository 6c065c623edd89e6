"""After any death, `check --repair` alone makes the table sound, and the rows stay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.check_finding import Severity
from tideline.hudi.services.archival.config import ArchivalConfig, MergeConfig
from tideline.hudi.services.archival.execute import execute_archival
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh, unexplained_objects

LONG_S = 3600.0
MERGING = ArchivalConfig(commits_min=1, commits_max=2, merge=MergeConfig(True, 2))


@pytest.fixture(scope="module")
def prepared() -> Iterator[SmallTable]:
    table = SmallTable.in_memory()
    for version in range(1, 7):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(6), version))
        if version == 4:
            archive(table)
    yield table
    table.forget()


def archive(table: SmallTable, store: ObjectStore | None = None) -> None:
    opened = open_fresh(table.location, store, table.clock)
    with opened.lock().acquire(timeout_s=60):
        execute_archival(opened, MERGING)


def upsert(table: SmallTable, store: ObjectStore | None = None) -> None:
    table.write("upsert", batch(range(4, 9), 9), store=store)


@pytest.mark.parametrize("act", [upsert, archive], ids=["upsert", "archival"])
def test_repairing_after_a_death_before_any_write(prepared: SmallTable, act: object) -> None:
    assert callable(act)
    intact = prepared.copy()
    counting = FaultyStore(intact.store())
    act(intact, counting)
    outcomes = (prepared.values(), intact.values())
    intact.forget()
    for number in range(1, len(counting.writes) + 1):
        when = f"died before write {number}: {counting.writes[number - 1]}"
        table = prepared.copy()
        with pytest.raises(SimulatedCrash):
            act(table, FaultyStore(table.store(), FaultPlan(crash_before_write=number)))
        table.fake_clock.advance(LONG_S)
        seen = table.values()
        assert seen in outcomes, when
        assert not [x for x in table.lake().check() if x.severity is Severity.ERROR], when
        # A write that died while pending is undone first; what it left after that is check's.
        table.lake().recover()
        table.lake().repair()
        assert table.lake().check(keys=True) == (), when
        assert unexplained_objects(open_fresh(table.location, clock=table.clock)) == [], when
        assert table.values() == seen, when
        table.forget()
