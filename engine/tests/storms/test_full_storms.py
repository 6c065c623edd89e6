"""Storms of kills with everybody at one table: writers, services, an eraser, a follower of changes,
a publisher and readers, on a table that keeps a metadata table, over listings that come late.

At each kind of store there is one without erasers and followers, with faults on the wire: a proxy
throttles, resets connections, cuts answers and loses replies of requests that took effect.
`TIDELINE_KILLS=<n>` has so many processes die on folders, as many on S3, and half as many at each
kind of store (`make storms`: 500).
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tideline.hudi.table.table_config import TableType
from tideline.storage.location import StoreLocation
from tideline.testing.directory_bucket_server import DirectoryBucketServer
from tideline.testing.faulty_store_proxy import FaultyStoreProxy, ProxyFault
from tideline.testing.full_storm import (
    LISTING_DELAY_S_MAX,
    audit_all,
    parts_of,
    stormy_table,
)
from tideline.testing.kill_storm import AT_A_SERVER, KillStorm
from tideline.testing.minio_server import MinioServer
from tideline.testing.s3_peers import PEERS, PlaceAtPeer
from tideline.testing.storm_states import read_lines
from tideline.testing.storm_writer import Event

KILLS = int(os.environ.get("TIDELINE_KILLS", "500"))
KILLS_OF_A_SHORT_STORM = 20
SHORT_S_MAX = 40.0
SHORT_LIFE_S = 1.0
"""On a folder; a storm lengthens it where too little is written."""
ERASURES = 3
STORM_S_MAX = 1200.0
FAULTS = {
    ProxyFault.ANSWER_503: 0.005,
    ProxyFault.ANSWER_429: 0.005,
    ProxyFault.DROP_REQUEST: 0.01,
    ProxyFault.APPLY_AND_DROP_REPLY: 0.02,
    ProxyFault.APPLY_AND_ANSWER_500: 0.01,
    ProxyFault.CUT_BODY: 0.01,
}
STORES = [
    pytest.param("s3_location", marks=pytest.mark.minio, id="minio"),
    pytest.param("azure_location", marks=pytest.mark.azurite, id="azurite"),
    pytest.param("gcs_location", id="gcs"),
    *PEERS,
]
AT_STORES = ("publisher", "reader")
"""Beside writers, a mover and a keeper: a proof of an erasure takes longer than a life there."""
KINDS = [(table_type, version) for table_type in TableType for version in (6, 9)]


def new_storm(
    location: StoreLocation,
    folder: Path,
    kind: tuple[TableType, int],
    *,
    life_s_max: float,
    options: Mapping[str, str],
    reached: StoreLocation | None = None,
) -> KillStorm:
    """At a location, which its processes reach as `reached` says."""
    table_type, version = kind
    table = stormy_table(location, table_type, version=version, is_followed=version == 9)
    reached = reached or location
    storm = KillStorm(
        reached,
        table,
        folder,
        options,
        seed=version,
        life_s_max=life_s_max,
        listing_delay_s_max=LISTING_DELAY_S_MAX,
    )
    storm.parts = parts_of(reached, folder, options)
    return storm


def rage(storms: Sequence[KillStorm], *, kills: int, erasures: int = 0, seconds_max: float) -> None:
    """Let the storms rage until enough died and were erased or it takes too long, then audit."""
    started_s = time.monotonic()
    try:
        while (
            sum(storm.kills for storm in storms) < kills or sum(map(erased_in, storms)) < erasures
        ):
            for storm in storms:
                storm.step()
            if time.monotonic() > started_s + seconds_max:
                break
            time.sleep(0.02)
        for storm in storms:
            storm.calm()
            audit_all(storm)
    finally:
        for storm in storms:
            storm.end()
            print(told(storm))
    print(f"in {time.monotonic() - started_s:.0f} s")


def erased_in(storm: KillStorm) -> int:
    """How many erasures were acknowledged."""
    return sum(line[0] == "erased" for line in read_lines(storm.folder / "eraser"))


def told(storm: KillStorm) -> str:
    """How much took place, for readers of the run's log."""
    journals = {
        name: Counter(str(line[0]) for line in read_lines(storm.folder / name))
        for name in ("eraser", "follower", "reader")
    }
    counted = {event.value: count for event, count in storm.events().items()}
    return f"{storm.kills} kills: {counted}, { ({k: dict(v) for k, v in journals.items()}) }"


def figures(storms: Sequence[KillStorm]) -> str:
    """What is said of a store in docs/stores.md."""
    events = sum((storm.events() for storm in storms), Counter[Event]())
    written = events[Event.ACKNOWLEDGED] + events[Event.FOUND]
    kills, looks = sum(storm.kills for storm in storms), sum(map(reads_in, storms))
    doubt = f"{events[Event.UNKNOWN]} unknown, {events[Event.FOUND]} found committed"
    return f"{kills} kills, {written} acknowledged, in doubt {doubt}, {looks} reads"


def reads_in(storm: KillStorm) -> int:
    """How often a reader saw a state of the table or of its publication."""
    return sum(line[0] == "seen" for line in read_lines(storm.folder / "reader"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS[::3], ids=lambda kind: f"{kind[0].name.lower()}-{kind[1]}")
def test_a_short_storm_with_everybody(kind: tuple[TableType, int], tmp_path: Path) -> None:
    location = StoreLocation.of(tmp_path / "table")
    storm = new_storm(location, tmp_path / "storm", kind, life_s_max=SHORT_LIFE_S, options={})
    rage([storm], kills=KILLS_OF_A_SHORT_STORM, seconds_max=SHORT_S_MAX)
    assert storm.events()[Event.ACKNOWLEDGED]


@pytest.mark.storm
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[0].name.lower()}-{kind[1]}")
def test_a_storm_with_everybody_on_a_folder(kind: tuple[TableType, int], tmp_path: Path) -> None:
    location = StoreLocation.of(tmp_path / "table")
    storm = new_storm(location, tmp_path / "storm", kind, life_s_max=SHORT_LIFE_S, options={})
    rage([storm], kills=KILLS // len(KINDS), erasures=ERASURES, seconds_max=STORM_S_MAX)
    assert storm.kills >= KILLS // len(KINDS)
    assert erased_in(storm) >= ERASURES


@pytest.mark.storm
@pytest.mark.minio
def test_a_storm_with_everybody_on_s3(
    s3_location: StoreLocation, minio_server: MinioServer, tmp_path: Path
) -> None:
    """Leases and heartbeats of the dead have to run out there, so several tables share the wait."""
    storms = []
    for number, kind in enumerate(KINDS):
        location = StoreLocation.of(f"{s3_location.uri}-{number}", minio_server.storage_options())
        folder = tmp_path / f"storm-{number}"
        storms.append(new_storm(location, folder, kind, life_s_max=25.0, options=AT_A_SERVER))
    rage(storms, kills=KILLS, erasures=ERASURES, seconds_max=2 * STORM_S_MAX)
    assert sum(storm.kills for storm in storms) >= KILLS
    assert sum(map(erased_in, storms)) >= ERASURES


@pytest.mark.storm
@pytest.mark.parametrize("store", STORES)
def test_a_storm_at_a_store_with_faults(
    store: str, place_at_peer: PlaceAtPeer, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = place_at_peer(store) if store in PEERS else request.getfixturevalue(store)
    with FaultyStoreProxy.before(place) as proxy:
        places = [StoreLocation.of(f"{place.uri}-{n}", dict(place.options)) for n in range(2)]
        reached = [proxy.reached(location) for location in places]
        rage_with_faults(store, proxy, places, reached, tmp_path)


@pytest.mark.storm
@pytest.mark.minio
def test_a_storm_in_a_directory_bucket_with_faults(
    minio_server: MinioServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faults come between the emulated rules and the MinIO. Sessions end every few seconds."""
    upstream = urlsplit(minio_server.endpoint).netloc
    with (
        FaultyStoreProxy(upstream) as proxy,
        DirectoryBucketServer(minio_server, tmp_path, way=proxy.url, session_s=40.0) as bucket,
    ):
        for name, value in bucket.environment().items():
            monkeypatch.setenv(name, value)
        tables = [f"s3://{bucket.bucket}/storm-{number}/table" for number in range(2)]
        places = [StoreLocation.of(uri, bucket.storage_options()) for uri in tables]
        rage_with_faults("directory bucket", proxy, places, places, tmp_path)
        assert len(bucket.sessions) > KILLS // 2


def rage_with_faults(
    store: str,
    proxy: FaultyStoreProxy,
    places: Sequence[StoreLocation],
    reached: Sequence[StoreLocation],
    folder: Path,
) -> None:
    """Two tables, made at `places`, whose processes reach them by way of the proxy."""
    storms = [
        new_storm(
            place,
            folder / f"storm-{number}",
            kind,
            life_s_max=25.0,
            options=AT_A_SERVER,
            reached=way,
        )
        for number, (kind, place, way) in enumerate(zip(KINDS[::3], places, reached, strict=True))
    ]
    for storm in storms:
        storm.parts = {name: storm.parts[name] for name in AT_STORES}
    proxy.inject_randomly(FAULTS, seed=11)
    rage(storms, kills=KILLS // 2, seconds_max=2 * STORM_S_MAX)
    print(f"{store}: {figures(storms)}, {len(proxy.requests)} requests, {dict(proxy.suffered)}")
    assert sum(storm.kills for storm in storms) >= KILLS // 2
    assert all(any(storm.acknowledged().values()) for storm in storms)
    assert all(proxy.suffered[fault] for fault in FAULTS), proxy.suffered
