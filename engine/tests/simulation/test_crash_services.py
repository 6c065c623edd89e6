"""A compaction or clustering dies before its n-th write, for every n.

Each run: copy a small table, die, read; let the heartbeat go silent; let the next run of the
service and the next writer come, read again. The rows are the same all along, and nothing is left
that is unaccounted for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.log_compaction.service import LOG_COMPACTION
from tideline.hudi.services.runs import TableServices
from tideline.hudi.services.service import TableService
from tideline.hudi.table.table_config import TableType
from tideline.services.run import ServiceRun
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore, LostReply, SimulatedCrash
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import missing_files, open_fresh, unexplained_objects

LONG_S = 3600.0
DUE = {
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.plan.strategy.sort.columns": "v",
    "hoodie.log.compaction.blocks.threshold": "1",
}
SERVICES = (COMPACTION, LOG_COMPACTION, CLUSTERING)
NEXT = batch([0, 50], 9)


def services(table: SmallTable, store: ObjectStore | None = None) -> TableServices:
    return local_services(table, DUE, store)


def run(table: SmallTable, service: TableService, store: ObjectStore | None = None) -> ServiceRun:
    return services(table, store).run(service)


@pytest.fixture(scope="module")
def prepared() -> Iterator[SmallTable]:
    table = SmallTable.in_memory(table_type=TableType.MERGE_ON_READ)
    table.write("insert", batch(range(8), 1))
    table.write("upsert", batch([0, 1], 2))
    table.write("delete", batch([3], 0))
    yield table
    table.forget()


def count_writes(prepared: SmallTable, act: Callable[[SmallTable, FaultyStore], object]) -> int:
    table = prepared.copy()
    store = FaultyStore(table.store())
    act(table, store)
    return len(store.writes)


@pytest.mark.parametrize("service", SERVICES, ids=str)
def test_dying_before_any_write_of_a_service(prepared: SmallTable, service: TableService) -> None:
    before = prepared.merged_values()

    def act(table: SmallTable, store: FaultyStore) -> object:
        return run(table, service, store)

    total = count_writes(prepared, act)
    assert total >= 6
    for number in range(1, total + 2):
        table = prepared.copy()
        plan = FaultPlan(crash_after_write=total) if number > total else FaultPlan(number)
        with pytest.raises(SimulatedCrash):
            act(table, FaultyStore(table.store(), plan))
        when = f"{service} died before its {number}. write"
        assert table.merged_values() == before, when
        table.fake_clock.advance(LONG_S)
        run(table, service)
        assert table.merged_values() == before, when
        table.write("upsert", NEXT)
        expected = sorted({**dict(before), "k000": 9, "k050": 9}.items())
        assert table.merged_values() == expected, when
        check_sound(table, service, when)
        table.forget()


def check_sound(table: SmallTable, service: TableService, when: str) -> None:
    fresh = open_fresh(table.location, clock=table.clock)
    pending = fresh.timeline().pending()
    assert not len(pending), f"{when}: {pending}"
    assert missing_files(fresh) == [], when
    if service is not LOG_COMPACTION:
        assert unexplained_objects(fresh) == [], when


@pytest.mark.slow_with(
    "v9-LostReply.UNAVAILABLE-compaction",
    "v9-LostReply.UNAVAILABLE-log_compaction",
    "v9-LostReply.UNAVAILABLE-clustering",
)
@pytest.mark.parametrize("service", SERVICES, ids=str)
@pytest.mark.parametrize("kind", LostReply)
def test_losing_any_reply_neither_loses_nor_doubles_rows(
    prepared: SmallTable, service: TableService, kind: LostReply
) -> None:
    before = prepared.merged_values()
    for number in range(1, 20):
        table = prepared.copy()
        plan = FaultPlan(lost_reply_of_conditional_write=number, lost_reply=kind)
        store = FaultyStore(table.store(), plan)
        try:
            run(table, service, store)
        except Exception:
            table.fake_clock.advance(LONG_S)
        assert table.merged_values() == before, number
        table.fake_clock.advance(LONG_S)
        for pending in services(table).pending(service, table.lake().timeline()):
            assert not pending.is_alive
            run(table, service)
        table.write("upsert", NEXT)
        assert len(table.merged_values()) == len(before) + 1, number
        done = number > store.conditional_writes
        table.forget()
        if done:
            break
