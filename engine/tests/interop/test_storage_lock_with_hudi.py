"""Hudi's storage lock with a holder on either side: waits, and taking over from the dead.

On Hudi's side all is its own StorageBasedLockProvider; on ours `tideline.storage.storage_lock`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tideline.clock import SystemClock
from tideline.hudi.table.table_config import TableType
from tideline.lock_timing import LockTiming
from tideline.storage.location import StoreLocation
from tideline.storage.lock import open_table_lock
from tideline.storage.storage_lock import STORAGE_LOCK_PATH
from tideline.testing import writer_process
from tideline.testing.concurrent_table import FILES_ALONE, ConcurrentTable
from tideline.testing.hudi_on_s3 import SHORT_LEASE, HudiOnS3
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.json_line_process import PeerLostError
from tideline.testing.patience import PATIENCE_S

pytestmark = [
    pytest.mark.interop,
    pytest.mark.minio,
    pytest.mark.spark,
    pytest.mark.slow,
]

OUR_SHORT_LEASE = LockTiming(validity_s=10.0, renew_interval_s=1.0)
LEASE_S = 10.0


@pytest.fixture(params=[6, 9], ids="v{}".format)
def table(
    request: pytest.FixtureRequest, s3_location: StoreLocation, hudi_peer_on_s3: HudiPeer
) -> ConcurrentTable:
    return made_by(hudi_peer_on_s3, s3_location, request.param)


def made_by(peer: HudiPeer, location: StoreLocation, version: int) -> ConcurrentTable:
    options = {**FILES_ALONE, **SHORT_LEASE}
    return ConcurrentTable.made_by_hudi(
        location, peer, version, TableType.COPY_ON_WRITE, range(8), options
    )


def lock_file(location: StoreLocation) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(location.open().get(STORAGE_LOCK_PATH))
    return found


def wait_until(condition: Callable[[], bool], *, within_s: float = PATIENCE_S) -> None:
    ends_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < ends_s, "it never came to that"
        time.sleep(0.01)


@contextlib.contextmanager
def held_by_us(location: StoreLocation) -> Iterator[None]:
    with open_table_lock(location.open(), SystemClock(), OUR_SHORT_LEASE).acquire():
        yield


def hold_forever(location: StoreLocation) -> None:
    with held_by_us(location):
        time.sleep(3600)


def test_hudi_waits_for_our_lock(table: ConcurrentTable) -> None:
    """Longer than one lease, which we renew; Hudi begins nothing meanwhile."""
    location = table.small.location
    before = len(table.committed())
    with ThreadPoolExecutor(1) as pool:
        with held_by_us(location):
            writing = pool.submit(table.write_with_hudi, "upsert", (0, 1))
            time.sleep(LEASE_S + 3)
            assert not writing.done()
            assert len(table.committed()) == before
            assert not lock_file(location)["expired"]
        assert writing.result()
    assert lock_file(location)["expired"]
    table.check()


def test_we_wait_for_the_lock_of_hudi(table: ConcurrentTable) -> None:
    """Longer than one lease, which Hudi renews."""
    location, peer = table.small.location, table.peer
    before = len(table.committed())
    with ThreadPoolExecutor(1) as pool:
        peer.hold_table_lock(table.uri_of_hudi, SHORT_LEASE)
        try:
            held = lock_file(location)
            writing = pool.submit(table.write, "upsert", (0, 1))
            time.sleep(LEASE_S + 3)
            assert not writing.done()
            assert len(table.committed()) == before
            renewed = lock_file(location)
            assert renewed["owner"] == held["owner"]
            assert renewed["validUntil"] > held["validUntil"] + 1000 * LEASE_S / 2
        finally:
            peer.release_table_lock()
        assert writing.result()
    table.check()


def test_hudi_takes_over_from_a_killed_process_of_ours(table: ConcurrentTable) -> None:
    location = table.small.location
    holder = writer_process.start(hold_forever, location)
    released_by_hudi = lock_file(location)["owner"]
    wait_until(lambda: lock_file(location)["owner"] != released_by_hudi)
    writer_process.kill(holder)
    left = lock_file(location)
    assert not left["expired"]
    assert table.write_with_hudi("upsert", (0, 1))
    assert time.time() * 1000 > left["validUntil"], "Hudi came before the lease was over"
    table.check()


@pytest.mark.parametrize("version", [6, 8, 9])
def test_we_take_over_from_a_killed_hudi(
    version: int,
    s3_location: StoreLocation,
    hudi_on_s3: HudiOnS3,
    hudi_peer_on_s3: HudiPeer,
    tmp_path: Path,
) -> None:
    """Killed within its commit, while it held the lock: the write is there whole or not at all."""
    table = made_by(hudi_peer_on_s3, s3_location, version)
    with hudi_on_s3.start(tmp_path / "victim") as victim, ThreadPoolExecutor(1) as pool:
        table.peer = victim
        writing = pool.submit(table.write_with_hudi, "upsert", (0, 1, 500))
        wait_until(lambda: is_written(table) and not lock_file(s3_location)["expired"])
        os.killpg(victim.pid, signal.SIGKILL)
        with pytest.raises(PeerLostError):
            writing.result()
    table.peer = hudi_peer_on_s3
    left = lock_file(s3_location)
    assert not left["expired"], "it was killed too late"
    table.write("upsert", (2, 3))
    assert time.time() * 1000 > left["validUntil"], "we came before the lease was over"
    table.check()
    table.finish()
    assert table.write_with_hudi("upsert", (1, 4))
    table.check()


def is_written(table: ConcurrentTable) -> bool:
    """Whether a pending write has its files, one in each of two partitions: it is to commit."""
    times = {str(instant.time) for instant in table.pending()}
    paths = [info.path for info in table.small.store().list()]
    files = [
        path
        for path in paths
        if not path.startswith(".hoodie/") and any(time in path for time in times)
    ]
    return len(files) == 2
