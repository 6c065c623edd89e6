"""A table that is copied again, where the process dies before or after each write of each step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.postgres.position import Phase, PostgresPosition
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.postgres_feed import ORDERS, TEN, orders_feed
from tideline.testing.postgres_server import PostgresDatabase

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
]

WRITES_MAX = 60


def dying(patch: pytest.MonkeyPatch, plan: FaultPlan, act: Callable[[], object]) -> bool:
    """Whether it died at the write of the plan."""
    store: list[FaultyStore] = []

    def opened(self: StoreLocation) -> ObjectStore:
        if not store:
            store.append(FaultyStore(whole(self), plan, kernel_locks=True))
        return store[0]

    whole = StoreLocation.open
    with patch.context() as patched:
        patched.setattr(StoreLocation, "open", opened)
        try:
            act()
        except SimulatedCrash:
            return True
    return False


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_a_death_at_any_write_leaves_a_copy_that_is_finished_later(
    table_type: str, when: str, postgres: PostgresDatabase, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    postgres.execute(ORDERS, TEN)
    found = orders_feed(tmp_path, postgres, changes_max=6)
    found.table_type = table_type
    found.drain()
    postgres.execute(
        f"select pg_drop_replication_slot('{postgres.slot}')",
        "delete from orders where id in (3, 10)",
        "update orders set v = 'new' where id = 4",
    )
    source = dict(postgres.execute("select id, v from orders"))
    old, deaths = dict(found.rows()), 0
    steps: list[str] = []

    def planned(number: int) -> FaultPlan:
        if when == "before":
            return FaultPlan(crash_before_write=number)
        return FaultPlan(crash_after_write=number)

    def live_through(act: Callable[[], object]) -> None:
        """Die at each write in turn, until an attempt lives."""
        nonlocal deaths
        for number in range(1, WRITES_MAX):
            died = dying(monkeypatch, planned(number), act)
            rows = dict(found.rows())
            # A row is the old one until it is replaced, and none that the source has is missing.
            assert source.keys() <= rows.keys()
            assert all(value in (old.get(key), source.get(key)) for key, value in rows.items())
            checkpoint = found.checkpoint()
            assert checkpoint is not None
            position = checkpoint.position
            assert isinstance(position, PostgresPosition)
            if position.phase is Phase.LOG and steps:
                assert rows == source, "what is half done looks finished"
            if not died:
                return
            deaths += 1
        raise AssertionError("no attempt lived")

    live_through(found.again)
    steps.append("again")
    while isinstance(operation := found.plan(), Operation):
        steps.append(str(operation.to_json_object()["work"]))

        def run(operation: Operation = operation) -> None:
            # After a death behind the commit there is nothing left of it.
            assert found.execute(operation).outcome in (Outcome.SUCCEEDED, Outcome.NOTHING)

        live_through(run)
    assert dict(found.rows()) == source
    assert deaths > 4 * len(steps)
    assert any("no more" in step for step in steps)
