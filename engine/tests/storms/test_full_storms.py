"""Storms of kills with everybody at one table: writers, services, an eraser, a follower of changes,
a publisher and readers, on a table that keeps a metadata table, over listings that come late.

`TIDELINE_KILLS=<n>` has so many processes die on folders, and as many on S3 (`make storms`: 500).
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tideline.hudi.table.table_config import TableType
from tideline.storage.location import StoreLocation
from tideline.testing.full_storm import (
    LISTING_DELAY_S_MAX,
    audit_all,
    parts_of,
    stormy_table,
)
from tideline.testing.kill_storm import KillStorm
from tideline.testing.minio_server import MinioServer
from tideline.testing.storm_states import read_lines
from tideline.testing.storm_writer import Event

KILLS = int(os.environ.get("TIDELINE_KILLS", "500"))
KILLS_OF_A_SHORT_STORM = 20
SHORT_S_MAX = 40.0
SHORT_LIFE_S = 1.0
"""On a folder; a storm lengthens it where too little is written."""
ERASURES = 3
STORM_S_MAX = 1200.0
S3_OPTIONS = {
    "hoodie.client.heartbeat.interval_in_ms": "1000",
    "hoodie.client.heartbeat.tolerable.misses": "4",
    "hoodie.write.lock.storage.validity.timeout.secs": "10",
    "hoodie.write.lock.storage.renew.interval.secs": "1",
}
KINDS = [(table_type, version) for table_type in TableType for version in (6, 9)]


def new_storm(
    location: StoreLocation,
    folder: Path,
    kind: tuple[TableType, int],
    *,
    life_s_max: float,
    options: Mapping[str, str],
) -> KillStorm:
    table_type, version = kind
    table = stormy_table(location, table_type, version=version, is_followed=version == 9)
    storm = KillStorm(
        location,
        table,
        folder,
        options,
        seed=version,
        life_s_max=life_s_max,
        listing_delay_s_max=LISTING_DELAY_S_MAX,
    )
    storm.parts = parts_of(location, folder, options)
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
        storms.append(new_storm(location, folder, kind, life_s_max=25.0, options=S3_OPTIONS))
    rage(storms, kills=KILLS, erasures=ERASURES, seconds_max=2 * STORM_S_MAX)
    assert sum(storm.kills for storm in storms) >= KILLS
    assert sum(map(erased_in, storms)) >= ERASURES
