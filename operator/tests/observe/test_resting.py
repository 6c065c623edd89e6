"""Polls of a table at rest: one request, and nothing that happens goes unnoticed for long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest

from tideline.hudi.open_table import open_table
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.ingest.location import Location
from tideline.ingest.sources.checkpoint import INGEST_KEY, checkpoint_metadata
from tideline.ingest.sources.files.listing import FileFormat, FileListing
from tideline.ingest.sources.files.look import list_arrived
from tideline.storage.location import StoreLocation
from tideline.testing.fake_clock import FakeClock
from tideline.testing.faulty_store_proxy import FaultyStoreProxy
from tideline.testing.file_ingests import checkpoint_after
from tideline.testing.minio_server import MinioServer
from tideline_operator.decide.observed import Observed
from tideline_operator.observe.observation import Observer
from tideline_operator.observe.resting import REST_MS, REST_MS_MAX
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import (
    LakeTableStatus,
    OperationPhase,
    OperationStatus,
)
from tideline_operator.testing.table_states import EMPTY, resolved, with_landing

DEFINITION = TableDefinition("people", ("id",), ("city",), ("ts",), table_version=6)


@dataclass
class Lake:
    """A table in a bucket behind a proxy that counts, and an observer of it."""

    direct: StoreLocation
    proxy: FaultyStoreProxy
    clock: FakeClock

    def __post_init__(self) -> None:
        options = {**dict(self.direct.options), "endpoint": self.proxy.endpoint}
        counted = tuple(sorted(options.items()))
        ingest = {
            "name": "landing",
            "source": {"format": "csv", "path": "landing", "namesAscend": True},
            "trigger": {"every": "1s"},
        }
        self.table: ResolvedTable = replace(
            with_landing(resolved(ingest=[ingest]), Location(self._at("landing").uri, counted)),
            location=Location(self._at("table").uri, counted),
        )
        self.observer = Observer(self.clock)

    def _at(self, folder: str) -> StoreLocation:
        root = self.direct.uri.removesuffix("/table")
        return StoreLocation(f"{root}/{folder}", self.direct.options)

    def create(self) -> None:
        create_table(self._at("table").open(), DEFINITION, self.clock)
        self.commit(1)

    def land(self, *names: str) -> None:
        store = self._at("landing").open()
        for name in names:
            store.put(f"{name}.csv", b"x")

    def commit(self, day: int, *, complete: bool = True) -> None:
        """Commit all that has landed, or begin to."""
        hoodie = open_table(self._at("table"), self.clock)
        time = InstantTime.parse(f"202601{day:02}000000000")
        instant = hoodie.timelines.create_requested(time, Action.COMMIT)
        instant = hoodie.timelines.to_inflight(instant)
        if not complete:
            return
        landing = list_arrived(self._at("landing").open(), FileFormat.CSV)
        taken = checkpoint_after(None, landing, landing.files)
        metadata = {**checkpoint_metadata({"landing": taken}), INGEST_KEY: "landing"}
        hoodie.timelines.complete(instant, CommitMetadata({}, "UPSERT", metadata).encode())

    def declare_anew(self) -> None:
        """The same table, whose spec has changed."""
        former = with_landing(self.table, Location("s3://x/y")).sources
        self.table = replace(self.table, former_sources=former)

    def look(self, status: LakeTableStatus = EMPTY) -> tuple[Observed, int]:
        """What is seen, and the number of requests that it took."""
        sent = len(self.proxy.requests)
        observed = self.observer.observe(self.table, status)
        assert observed.problem is None
        return observed, len(self.proxy.requests) - sent


def listed(observed: Observed) -> int:
    available = observed.sources["landing"].available
    assert isinstance(available, FileListing)
    return len(available.files)


@pytest.fixture
def lake(s3_location: StoreLocation, minio_server: MinioServer) -> Iterator[Lake]:
    with FaultyStoreProxy(minio_server.address) as proxy:
        lake = Lake(s3_location, proxy, FakeClock())
        lake.land(*(f"{number:03}" for number in range(5)))
        lake.create()
        lake.look()
        yield lake


pytestmark = pytest.mark.minio


def test_a_poll_in_which_nothing_is_new_is_one_request(lake: Lake) -> None:
    before, _ = lake.look()
    for _ in range(3):
        observed, requests = lake.look()
        assert requests == 1
        assert observed.table == before.table
        assert listed(observed) == 5


def test_a_new_file_is_seen_at_once_and_planned_from_the_table_as_it_is(lake: Lake) -> None:
    lake.look()
    lake.land("900")
    observed, requests = lake.look()
    assert requests > 1
    assert listed(observed) == 6


def ended(at_ms: int | None) -> LakeTableStatus:
    finished = None if at_ms is None else Timestamp(at_ms)
    entry = OperationStatus(
        id="x",
        kind="ingest",
        phase=OperationPhase.SUCCEEDED,
        started_at=Timestamp(0),
        finished_at=finished,
    )
    return LakeTableStatus(operations=(entry,))


@pytest.mark.parametrize(
    "happens",
    [
        lambda lake: lake.clock.advance(REST_MS / 1000),
        lambda lake: lake.declare_anew(),
        lambda lake: lake.observer.observe(lake.table, EMPTY, running=frozenset({"x"})),
    ],
    ids=["ten seconds pass", "it is declared again", "an operation runs"],
)
def test_what_ends_the_rest(lake: Lake, happens: Callable[[Lake], object]) -> None:
    lake.look()
    assert lake.look()[1] == 1
    happens(lake)
    lake.commit(2)
    observed, requests = lake.look()
    assert requests > 1
    assert observed.table is not None
    assert observed.table.latest == "20260102000000000"


def test_a_table_rests_as_long_as_it_has_not_changed_and_five_minutes_at_most(lake: Lake) -> None:
    now_s, looked_s = 0, [0]
    while now_s < 1600:
        lake.clock.advance(10)
        now_s += 10
        if lake.look()[1] > 1:
            looked_s.append(now_s)
    rests = [after - before for before, after in pairwise(looked_s)]
    assert rests == sorted(rests)
    assert (rests[0], rests[-1]) == (REST_MS / 1000, REST_MS_MAX / 1000)
    # A commit of another engine is noticed, and the rests are short again.
    lake.commit(2)
    lake.clock.advance(REST_MS_MAX / 1000)
    observed, _ = lake.look()
    assert observed.table is not None
    assert observed.table.latest == "20260102000000000"
    lake.clock.advance(REST_MS / 1000)
    assert lake.look()[1] > 1


def test_after_an_operation_the_table_is_looked_at(lake: Lake) -> None:
    lake.look()
    now_ms = lake.clock.now_ms()
    assert lake.look(ended(now_ms - 1))[1] == 1
    assert lake.look(ended(now_ms))[1] > 1
    assert lake.look(ended(None))[1] > 1


def test_a_table_with_an_instant_under_way_does_not_rest(lake: Lake) -> None:
    lake.commit(2, complete=False)
    lake.clock.advance(REST_MS / 1000)
    for _ in range(2):
        observed, requests = lake.look()
        assert requests > 1
        assert observed.table is not None
        assert [pending_instant.time for pending_instant in observed.table.pending] == [
            "20260102000000000"
        ]
