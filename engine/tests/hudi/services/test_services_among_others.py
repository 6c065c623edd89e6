"""Services among others: the lock as they are asked to take it, and rollbacks begun on them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tideline.errors import ConflictError
from tideline.hudi.recovery.execute import execute_attempt_rollback
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.partition_ttl.service import PARTITION_TTL
from tideline.hudi.services.registry import all_services
from tideline.hudi.services.service import TableService
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import Action
from tideline.storage.storage_lock import STORAGE_LOCK_PATH
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.kill_storm import SERVICE_OPTIONS
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

LEASE = {"hoodie.write.lock.storage.validity.timeout.secs": "20"}
INDEX = {"tideline.indexes": "column_stats"}


class LeaseSpy(FaultyStore):
    """Notes until when each lease of the table lock was taken."""

    def __init__(self, table: SmallTable) -> None:
        super().__init__(table.store())
        self._clock = table.clock
        self.leases_ms: set[int] = set()

    def _note(self, path: str, body: bytes) -> None:
        if path == STORAGE_LOCK_PATH and not (lease := json.loads(body))["expired"]:
            self.leases_ms.add(lease["validUntil"] - self._clock.now_ms())

    def put_if_absent(self, path: str, body: bytes, **how: Any) -> Any:
        self._note(path, body)
        return super().put_if_absent(path, body, **how)

    def put_if_match(self, path: str, body: bytes, **how: Any) -> Any:
        self._note(path, body)
        return super().put_if_match(path, body, **how)


@pytest.mark.parametrize(
    "service",
    [table_service for table_service in all_services() if table_service is not PARTITION_TTL],
    ids=str,
)
def test_a_lease_is_as_long_as_asked_for(service: TableService) -> None:
    table = SmallTable.in_memory(table_type=TableType.MERGE_ON_READ)
    for v in range(1, 12):
        table.write("upsert", batch(range(4), v))
    spy = LeaseSpy(table)
    local_services(table, {**SERVICE_OPTIONS, **INDEX, **LEASE}, spy).run(service)
    assert spy.leases_ms
    assert max(spy.leases_ms) <= 20_000
    table.forget()


def test_a_rollback_of_a_service_that_has_only_begun_makes_it_give_up() -> None:
    """Its process took the service for dead, and may have deleted some of its files."""
    table = SmallTable.in_memory(table_type=TableType.MERGE_ON_READ)
    for v in range(1, 4):
        table.write("upsert", batch(range(4), v))
    before = table.merged_values()

    def begin_rolling_back() -> None:
        plan = FaultPlan(crash_after_write=2)
        fresh = open_fresh(table.location, FaultyStore(table.store(), plan), table.clock)
        (running,) = fresh.timeline().pending()
        with pytest.raises(SimulatedCrash), fresh.lock().acquire():
            execute_attempt_rollback(fresh, running)
        assert len(open_fresh(table.location).timeline().pending().of(Action.ROLLBACK)) == 1
        table.fake_clock.advance(120)  # until the lock of the dead one is free

    services = local_services(table, SERVICE_OPTIONS, after_files=begin_rolling_back)
    with pytest.raises(ConflictError, match="rolled back"):
        services.run(COMPACTION)
    assert table.merged_values() == before
    local_services(table, SERVICE_OPTIONS).run(COMPACTION)
    for v in range(4, 8):
        table.write("upsert", batch(range(4), v))
    assert [value for _, value in table.merged_values()] == [7] * 4
    table.forget()
