"""Storms of kills: nothing is lost and nothing doubled, whichever process dies, on folders and S3.

On S3 the store misbehaves as well: a proxy in front of it answers 503, resets connections and loses
replies of requests that took effect.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tideline.hudi.table.table_config import TableType
from tideline.storage.location import StoreLocation
from tideline.testing.faulty_store_proxy import FaultyStoreProxy, ProxyFault
from tideline.testing.kill_storm import AT_A_SERVER, KillStorm
from tideline.testing.minio_server import MinioServer
from tideline.testing.small_table import SmallTable
from tideline.testing.storm_writer import Event

pytestmark = pytest.mark.storm

KILLS = 300
ACKNOWLEDGED_ON_S3 = 300
TABLES_ON_S3 = 9
LOOK_EVERY_KILLS = 20
STORM_S_MAX = 2400.0
FAULTS = {
    ProxyFault.ANSWER_503: 0.01,
    ProxyFault.DROP_REQUEST: 0.01,
    ProxyFault.APPLY_AND_DROP_REPLY: 0.02,
    ProxyFault.APPLY_AND_ANSWER_500: 0.01,
}


def weather(storms: Sequence[KillStorm], *, kills: int, acknowledged: int = 0) -> Counter[Event]:
    """Let the storms rage until enough died and enough was written, then audit each table."""
    started_s = time.monotonic()
    looked_at = 0
    try:
        while True:
            for storm in storms:
                storm.step()
            died = sum(storm.kills for storm in storms)
            written = sum(len(group) for storm in storms for group in storm.acknowledged().values())
            if died >= kills and written >= acknowledged:
                break
            if died >= looked_at + LOOK_EVERY_KILLS:
                looked_at = died
                storms[died % len(storms)].look()
            assert time.monotonic() < started_s + STORM_S_MAX, (died, written)
            time.sleep(0.02)
        for storm in storms:
            storm.calm()
            storm.audit()
    finally:
        for storm in storms:
            storm.end()
    events = sum((storm.events() for storm in storms), Counter())
    counted = ", ".join(
        f"{count} {event.value}" for event, count in sorted(events.items(), key=str)
    )
    print(f"{died} kills in {time.monotonic() - started_s:.0f} s: {counted}")
    return events


@pytest.mark.parametrize("table_type", TableType, ids=str)
def test_a_storm_of_kills_on_a_folder(table_type: TableType, tmp_path: Path) -> None:
    location = StoreLocation.of(tmp_path / "table")
    table = SmallTable.create(location, table_type=table_type)
    storm = KillStorm(location, table, tmp_path / "storm", {}, seed=7, life_s_max=2.0)
    events = weather([storm], kills=KILLS)
    assert events[Event.FOUND], "no writer was killed between its commit and its acknowledgement"


@pytest.fixture
def proxy(minio_server: MinioServer) -> Iterator[FaultyStoreProxy]:
    with FaultyStoreProxy(minio_server.address) as running:
        yield running


@pytest.mark.minio
def test_a_storm_of_kills_on_s3_that_loses_replies(
    s3_location: StoreLocation, minio_server: MinioServer, proxy: FaultyStoreProxy, tmp_path: Path
) -> None:
    """Leases and heartbeats of the dead have to run out there, so several tables share the wait."""
    through_proxy = {**minio_server.storage_options(), "endpoint": proxy.endpoint}
    storms = []
    for number in range(TABLES_ON_S3):
        uri = f"{s3_location.uri}-{number}"
        direct = StoreLocation.of(uri, minio_server.storage_options())
        table_type = (TableType.MERGE_ON_READ, TableType.COPY_ON_WRITE)[number % 2]
        table = SmallTable.create(direct, table_type=table_type)
        location = StoreLocation.of(uri, through_proxy)
        folder = tmp_path / f"storm-{number}"
        storms.append(KillStorm(location, table, folder, AT_A_SERVER, seed=number, life_s_max=25.0))
    proxy.inject_randomly(FAULTS, seed=11)
    events = weather(storms, kills=KILLS, acknowledged=ACKNOWLEDGED_ON_S3)
    assert events[Event.FOUND], "no commit was in doubt"
    for fault in FAULTS:
        assert proxy.suffered[fault], f"the proxy never had a fault: {fault.value}"
