"""Storms over topics and tables of Postgres: no row is lost and none doubled, whatever dies.

Topics are those of one broker, or of two that die in turn while partitions and leaders move.

`TIDELINE_KILLS=<n>` has so many kills for each source, twice as many as that for the store that is
a folder as for the one that is a MinIO server behind a proxy with faults.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tideline.hudi.table.table_config import TableType
from tideline.ingest.location import Location
from tideline.storage.location import StoreLocation
from tideline.testing.cluster_storm import ClusterChanges, StormCluster
from tideline.testing.faulty_store_proxy import FaultyStoreProxy, ProxyFault
from tideline.testing.kafka_broker import KafkaBroker, build
from tideline.testing.maven_jars import require_jars
from tideline.testing.minio_server import MinioServer
from tideline.testing.postgres_server import PostgresDatabase, PostgresServer
from tideline.testing.postgres_storm import PostgresChanges
from tideline.testing.stream_feed import StreamFeed
from tideline.testing.stream_storm import StormTable, StreamStorm
from tideline.testing.topic_storm import TopicChanges

KILLS = int(os.environ.get("TIDELINE_KILLS", "500"))
KILLS_OF_A_SHORT_STORM = 20
KILLS_OF_A_ROUND = 200
SHORT_S_MAX = 60.0
ROUND_S_MAX = 600.0
FAULTS = {
    ProxyFault.ANSWER_503: 0.01,
    ProxyFault.DROP_REQUEST: 0.01,
    ProxyFault.APPLY_AND_DROP_REPLY: 0.02,
    ProxyFault.APPLY_AND_ANSWER_500: 0.01,
    ProxyFault.CUT_BODY: 0.01,
}
S3_OPTIONS = {
    "hoodie.client.heartbeat.interval_in_ms": "1000",
    "hoodie.client.heartbeat.tolerable.misses": "4",
    "hoodie.write.lock.storage.validity.timeout.secs": "10",
    "hoodie.write.lock.storage.renew.interval.secs": "1",
}
TOPICS = [
    pytest.param(kind, marks=pytest.mark.kafka)
    for kind in ("inserts", "upserts", "inserts-on-two", "upserts-on-two")
]
TABLES = [pytest.param(kind, marks=pytest.mark.postgres) for kind in ("postgres", "postgres-again")]
SOURCES = [*TOPICS, *TABLES]
Changes = TopicChanges | PostgresChanges
Start = Callable[[int], Any]


@pytest.fixture(scope="session")
def two_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StormCluster]:
    require_jars(build)
    with StormCluster(tmp_path_factory.mktemp("two-brokers")) as cluster:
        yield cluster


@pytest.fixture
def changes(
    source: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], Any]:
    """Starts a source by a seed; of Postgres in a database of its own."""

    @contextmanager
    def started(seed: int) -> Iterator[Changes]:
        if source.startswith("postgres"):
            server: PostgresServer = request.getfixturevalue("postgres_server")
            with PostgresDatabase(server) as database:
                monkeypatch.setenv("POSTGRES_URI", database.uri)
                yield PostgresChanges(database, seed, reads_again=source == "postgres-again")
            return
        topic, inserts = f"storm-{secrets.token_hex(4)}", source.startswith("inserts")
        if source.endswith("on-two"):
            cluster: StormCluster = request.getfixturevalue("two_brokers")
            yield ClusterChanges(cluster, topic, seed, inserts=inserts)
        else:
            broker: KafkaBroker = request.getfixturevalue("kafka_broker")
            yield TopicChanges(broker, topic, seed, inserts=inserts)

    return started


@dataclass(frozen=True, slots=True)
class Place:
    """Where tables are: as processes reach it, and as the audit does."""

    uri: str
    options: Mapping[str, str]
    direct: Mapping[str, str]
    settings: Mapping[str, str]

    def table(self, name: str, feed: StreamFeed, folder: Path) -> StormTable:
        uri = f"{self.uri}/{name}"
        reached, direct = (
            Location(found.uri, found.options)
            for found in (StoreLocation.of(uri, options) for options in (self.options, self.direct))
        )
        feed = replace(feed, write_properties=self.settings)
        return StormTable(
            name,
            replace(feed, location=reached),
            replace(feed, location=direct),
            folder / name,
            self.settings,
        )


def rage(
    source: str,
    changes: Start,
    place: Place,
    folder: Path,
    *,
    kills: int,
    kills_of_a_round: int,
    life_s_max: float,
    seconds_max: float,
    kill_store: Callable[[], None] | None = None,
    seed: int | None = None,
) -> int:
    """Storms, each over a table of each type, until there were so many kills, or they have raged
    for so long. To start and to compare takes its own time, on a busy machine a minute."""
    done, raged_s = 0, 0.0
    while done < kills and raged_s < seconds_max:
        drawn = secrets.randbits(32) if seed is None else seed
        started_s = time.monotonic()
        with changes(drawn) as running:
            tables = []
            for number, table_type in enumerate(TableType):
                name = f"{source}-{table_type.value.lower()}-{drawn}"
                feed = running.feed(folder / name, table_type.value, number)
                tables.append(place.table(name, feed, folder))
            if isinstance(running, TopicChanges):
                running.watch([table.direct for table in tables])
            storm = StreamStorm(running, tables, drawn, life_s_max, kill_store)
            try:
                left = min(kills_of_a_round, kills - done)
                for figures in storm.rage(left, seconds_max - raged_s):
                    print(figures)
            finally:
                done += storm.kills
                raged_s += storm.seconds.get("kills", 0.0)
                print(
                    f"seed {drawn}: {storm.kills} kills in {time.monotonic() - started_s:.0f} s "
                    f"{storm.seconds}, servers {dict(storm.server_kills)}, "
                    f"events {dict(storm.events)}"
                )
    return done


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_a_short_storm_over_a_stream(source: str, changes: Start, tmp_path: Path) -> None:
    place = Place(f"file://{tmp_path}", {}, {}, {})
    assert rage(
        source,
        changes,
        place,
        tmp_path,
        kills=KILLS_OF_A_SHORT_STORM,
        kills_of_a_round=KILLS_OF_A_SHORT_STORM,
        life_s_max=2.0,
        seconds_max=SHORT_S_MAX,
    )


@pytest.mark.storm
@pytest.mark.parametrize("source", SOURCES)
def test_a_storm_over_a_stream_on_a_folder(source: str, changes: Start, tmp_path: Path) -> None:
    place = Place(f"file://{tmp_path}", {}, {}, {})
    kills = rage(
        source,
        changes,
        place,
        tmp_path,
        kills=KILLS,
        kills_of_a_round=KILLS_OF_A_ROUND,
        life_s_max=2.0,
        seconds_max=ROUND_S_MAX * 4,
    )
    assert kills >= KILLS


@pytest.mark.storm
@pytest.mark.minio
@pytest.mark.parametrize("source", SOURCES)
def test_a_storm_over_a_stream_on_s3_with_faults(
    source: str,
    changes: Start,
    s3_location: StoreLocation,
    minio_server: MinioServer,
    tmp_path: Path,
) -> None:
    """Leases and heartbeats of the dead have to run out there, so lives are longer."""

    def kill_store() -> None:
        minio_server.kill()
        minio_server.start_again()

    direct = minio_server.storage_options()
    with FaultyStoreProxy(minio_server.address) as proxy:
        proxy.inject_randomly(FAULTS, seed=secrets.randbits(32))
        place = Place(s3_location.uri, {**direct, "endpoint": proxy.endpoint}, direct, S3_OPTIONS)
        kills = rage(
            source,
            changes,
            place,
            tmp_path,
            kills=KILLS // 2,
            kills_of_a_round=KILLS_OF_A_ROUND,
            life_s_max=15.0,
            seconds_max=ROUND_S_MAX * 4,
            kill_store=partial(kill_store),
        )
        assert kills >= KILLS // 2
        for fault in FAULTS:
            assert proxy.suffered[fault], f"the proxy never had a fault: {fault.value}"
