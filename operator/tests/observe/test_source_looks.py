"""What a look at a landing prefix costs, and what it finds, however many files lie there."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from tideline.ingest.location import Location
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.files.look import list_arrived
from tideline.ingest.sources.source import Limits, Lost, Nothing
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.fake_clock import FakeClock
from tideline.testing.faulty_store_proxy import FaultyStoreProxy
from tideline.testing.file_ingests import checkpoint_after
from tideline.testing.minio_server import MinioServer
from tideline_operator.decide.observed import ObservedSource
from tideline_operator.observe.observation import open_with_environment
from tideline_operator.observe.source_looks import SourceLooks, with_environment
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.testing.table_states import resolved, with_landing

FEW, MANY = 100, 2_600
HOUR_S = 3_600


def declared(place: Location, **source: object) -> ResolvedTable:
    ingest = {
        "name": "landing",
        "source": {"format": "csv", "path": "landing", **source},
        "trigger": {"every": "30s"},
    }
    return with_landing(resolved(ingest=[ingest]), place)


@dataclass
class Looks:
    """A landing prefix, what was taken from it, and looks at it by one process."""

    place: Location
    table: ResolvedTable
    clock: FakeClock = field(default_factory=FakeClock)
    checkpoint: Checkpoint | None = None

    def __post_init__(self) -> None:
        self.looks = SourceLooks(self.clock, with_environment(open_with_environment))

    @property
    def store(self) -> ObjectStore:
        return StoreLocation.of(self.place.uri, dict(self.place.options)).open()

    def land(self, *names: str) -> None:
        store = self.store
        with ThreadPoolExecutor(16) as threads:
            for _ in threads.map(lambda name: store.put(f"{name}.csv", b"x"), names):
                pass

    def take_all(self) -> None:
        landing = list_arrived(self.store, FileFormat.CSV)
        self.checkpoint = checkpoint_after(self.checkpoint, landing, landing.files)

    def look(self) -> ObservedSource:
        known = {"landing": self.checkpoint} if self.checkpoint is not None else {}
        (ingest,) = self.table.spec.ingest
        return self.looks.look(self.table, ingest, known)

    def new(self) -> list[str]:
        seen = self.look()
        assert seen.available is not None
        before = self.checkpoint
        position = None if before is None else before.position
        planned = seen.available.plan(position, Limits(parts_max=100, now_ms=2**62))
        return [] if isinstance(planned, Nothing | Lost) else list(planned.names)


def is_whole(seen: ObservedSource) -> bool:
    assert seen.available is not None
    return seen.available.is_whole


@pytest.fixture
def looks(tmp_path_factory: pytest.TempPathFactory) -> Looks:
    place = Location(f"memory://{tmp_path_factory.mktemp('looks').name}")
    return Looks(place, declared(place, namesAscend=True))


def test_new_names_are_found_and_an_earlier_one_by_the_next_full_look(looks: Looks) -> None:
    looks.land(*(f"{number:04}" for number in range(1_000, 2_000)))
    looks.take_all()
    assert looks.new() == [], "the first look of a process is a full one"
    looks.land("2001", "1999-late", "0001-very-late")
    assert sorted(looks.new()) == ["1999-late.csv", "2001.csv"]
    assert not is_whole(looks.look())
    looks.clock.advance(HOUR_S - 1)
    assert "0001-very-late.csv" not in looks.new()
    looks.clock.advance(2)
    assert sorted(looks.new()) == ["0001-very-late.csv", "1999-late.csv", "2001.csv"]


def test_another_process_begins_with_a_full_look(looks: Looks) -> None:
    looks.land(*(f"{number:04}" for number in range(1_000, 2_000)))
    looks.take_all()
    looks.look()
    looks.land("0001-very-late")
    again = Looks(looks.place, looks.table, looks.clock, looks.checkpoint)
    assert again.new() == ["0001-very-late.csv"]


def test_without_the_promise_about_names_every_look_is_a_full_one(looks: Looks) -> None:
    looks.land(*(f"{number:04}" for number in range(1_000, 2_000)))
    looks.take_all()
    plain = Looks(looks.place, declared(looks.place), looks.clock, looks.checkpoint)
    plain.look()
    assert is_whole(plain.look())


@pytest.fixture
def proxy(minio_server: MinioServer) -> Iterator[FaultyStoreProxy]:
    with FaultyStoreProxy(minio_server.address) as running:
        yield running


@pytest.mark.minio
@pytest.mark.parametrize("count", [FEW, MANY])
def test_a_look_in_which_nothing_is_new_is_one_request(
    s3_location: StoreLocation, proxy: FaultyStoreProxy, count: int
) -> None:
    direct = Location(f"{s3_location.uri}/landing", s3_location.options)
    options = {**dict(s3_location.options), "endpoint": proxy.endpoint}
    place = Location(direct.uri, tuple(sorted(options.items())))
    writer = Looks(direct, declared(direct))
    writer.land(*(f"2026/{number:06}" for number in range(count)), "_SUCCESS")
    writer.take_all()
    looks = Looks(place, declared(place, namesAscend=True), checkpoint=writer.checkpoint)
    looks.look()
    for _ in range(3):
        sent = len(proxy.requests)
        assert looks.new() == []
        (request,) = proxy.requests[sent:]
        assert request.method == "GET"
    writer.land("2026/999999")
    sent = len(proxy.requests)
    assert looks.new() == ["2026/999999.csv"]
    assert len(proxy.requests) - sent == 1
