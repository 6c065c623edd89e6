"""An operator that dies while it checks a bucket leaves objects; the next one removes them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from tideline.ingest.location import Location
from tideline.storage.memory.store import MemoryStore
from tideline.storage.object_store import ObjectStore
from tideline.testing.fake_clock import FakeClock
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline_operator.api_objects import LAKE_STORES, Manifest
from tideline_operator.controller import store_watch
from tideline_operator.controller.controller_metrics import ControllerMetrics, ProcessMetrics
from tideline_operator.controller.event_recorder import EventRecorder
from tideline_operator.controller.object_cache import ObjectCache
from tideline_operator.controller.store_watch import StoreWatch
from tideline_operator.reading.access import Access
from tideline_operator.reading.table_reading import TableReading
from tideline_operator.resources.lake_store import LakeStore
from tideline_operator.resources.parsing import parse_object
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.testing.memory_api import MemoryApi
from tideline_operator.testing.table_states import resolved

STORE: Manifest = {
    "apiVersion": LAKE_STORES.api_version,
    "kind": LAKE_STORES.kind,
    "metadata": {"name": "minio", "namespace": "lake", "generation": 1},
    "spec": {"endpoint": "https://minio.example", "region": "us-east-1"},
}


@dataclass(frozen=True, slots=True, repr=False)
class Bucket(Access):
    """Every place is in memory; the process dies after a write."""

    name: str = ""
    plan: FaultPlan | None = None

    def open_store(self, place: Location) -> ObjectStore:
        folder = place.uri.removeprefix("s3://").replace("/", "-")
        return FaultyStore(MemoryStore(f"{self.name}-{folder}"), self.plan)


def table(name: str) -> ResolvedTable:
    found = resolved(storeRef="minio", location=f"s3://lake/{name}", ingest=None)
    metadata = replace(found.resource.metadata, name=name, namespace="lake")
    resource = replace(found.resource, metadata=metadata)
    store = parse_object(LakeStore, STORE)
    location = Location(f"s3://lake/{name}")
    return replace(found, resource=resource, location=location, stores={"minio": store.spec})


class Operator:
    """A watch, which knows tables as they have their turns."""

    def __init__(self, access: Bucket, api: MemoryApi, expected: tuple[str, ...]) -> None:
        clock, stores = FakeClock(), ObjectCache()
        found = api.get(LAKE_STORES, "minio", "lake")
        assert found is not None
        stores.put(found)
        self._clock = clock
        self._api = api
        self._watch = StoreWatch(
            api,
            stores,
            TableReading(clock),
            lambda _: access,
            EventRecorder(api, "test", clock.now_ms),
            ControllerMetrics(ProcessMetrics(), clock),
            clock,
            lambda _: None,
        )
        for name in expected:
            self._watch.expect(("lake", name), ["minio"])

    def turn(self, name: str) -> None:
        self._watch.note(("lake", name), table(name))
        self._watch.had_turn(("lake", name))
        self.look()

    def look(self) -> None:
        self._clock.advance(60)
        self._watch.look()

    def outcome(self) -> str:
        found = self._api.get(LAKE_STORES, "minio", "lake")
        assert found is not None
        return str(
            ((found.get("status") or {}).get("buckets") or {}).get("lake", {}).get("outcome")
        )


@pytest.fixture(autouse=True)
def whole_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look has ended when `look` returns, however slow the machine is."""
    monkeypatch.setattr(store_watch, "_QUICK_S", 60.0)


@pytest.fixture
def name() -> Iterator[str]:
    unique = secrets.token_hex(8)
    yield unique
    for folder in ("people", "zebras"):
        MemoryStore.forget(f"{unique}-lake-{folder}")


def objects(name: str, folder: str) -> list[str]:
    return [found.path for found in MemoryStore(f"{name}-lake-{folder}").list()]


@pytest.mark.parametrize("after_write", [1, 4, 9])
def test_the_next_operator_checks_at_the_same_place_and_removes_what_was_left(
    name: str, after_write: int
) -> None:
    api = MemoryApi()
    api.create(LAKE_STORES, STORE, "lake")
    first = Operator(Bucket(name=name, plan=FaultPlan(crash_after_write=after_write)), api, ())
    with pytest.raises(SimulatedCrash):
        first.turn("people")
    assert objects(name, "people")
    second = Operator(Bucket(name=name), api, ("people", "zebras"))
    # A table that has its turn first is not where the check was.
    second.turn("zebras")
    assert second.outcome() != "passed"
    second.turn("people")
    second.look()
    assert second.outcome() == "passed"
    assert objects(name, "people") == objects(name, "zebras") == []
