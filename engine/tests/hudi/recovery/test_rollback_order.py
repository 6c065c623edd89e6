"""While a file of a failed write is there, its instant is: the process that continues finds
both."""

from __future__ import annotations

import pytest

from tideline.hudi.table.table_config import TableType
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

LONG_S = 3600.0
COMPLETING = (".commit", ".deltacommit")


def dead_writer(table_type: TableType) -> SmallTable:
    """A table whose last writer died just before its commit became visible."""
    table = SmallTable.in_memory(table_type=table_type)
    table.write("insert", batch(range(4), 1))
    rehearsal = FaultyStore(table.copy().store())
    table.copy().write("upsert", batch(range(2, 8), 2), store=rehearsal)
    paths = [write.path for write in rehearsal.writes]
    completing = next(n for n, path in enumerate(paths, 1) if path.endswith(COMPLETING))
    with pytest.raises(SimulatedCrash):
        store = FaultyStore(table.store(), FaultPlan(completing))
        table.write("upsert", batch(range(2, 8), 2), store=store)
    return table


def recover(table: SmallTable, store: FaultyStore) -> None:
    table.fake_clock.advance(LONG_S)
    table.lake(store).recover()


@pytest.mark.parametrize("table_type", TableType, ids=str)
def test_an_instant_is_in_the_timeline_as_long_as_its_files_are(table_type: TableType) -> None:
    dead = dead_writer(table_type)
    (failed,) = open_fresh(dead.location, clock=dead.clock).timeline().pending()
    intact = dead.copy()
    rehearsal = FaultyStore(intact.store())
    recover(intact, rehearsal)
    had_files = []
    for number in range(1, len(rehearsal.writes) + 1):
        table = dead.copy()
        with pytest.raises(SimulatedCrash):
            recover(table, FaultyStore(table.store(), FaultPlan(number)))
        names = [info.path for info in table.store().list()]
        files = [path for path in names if path.endswith(f"_{failed.time}.parquet")]
        found = open_fresh(table.location, clock=table.clock).timeline().find(failed.time)
        assert found is not None or not files, f"died before write {number}"
        had_files.append(bool(files))
        table.forget()
    assert {True, False} == set(had_files)
    dead.forget()
