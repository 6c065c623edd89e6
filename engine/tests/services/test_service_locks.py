"""Every service takes the table lock with the timing that its settings ask for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tideline.services.service import Service
from tideline.storage.storage_lock import STORAGE_LOCK_PATH
from tideline.table.table_config import TableType
from tideline.testing.faulty_store import FaultyStore
from tideline.testing.kill_storm import SERVICE_OPTIONS
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable, batch

LEASE = {"hoodie.write.lock.storage.validity.timeout.secs": "20"}


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


@pytest.mark.parametrize("service", [one for one in Service if one is not Service.TTL], ids=str)
def test_a_lease_is_as_long_as_asked_for(service: Service) -> None:
    table = SmallTable.in_memory(table_type=TableType.MERGE_ON_READ)
    for v in range(1, 12):
        table.write("upsert", batch(range(4), v))
    spy = LeaseSpy(table)
    local_services(table, {**SERVICE_OPTIONS, **LEASE}, spy).run(service)
    assert spy.leases_ms
    assert max(spy.leases_ms) <= 20_000
    table.forget()
