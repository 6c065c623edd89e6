"""Partitions that Hudi's time to live drops, and ours, beside every index: what is kept says what
is there, and Hudi's queries find the same rows with indexes as without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.check_finding import Severity
from tideline.hudi.check.run import check_table
from tideline.hudi.table.table_config import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
)
from tideline.storage.location import StoreLocation
from tideline.testing.fake_clock import FakeClock
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.small_table import QUIET, SmallTable, batch
from tideline.testing.table_audit import stale_listing

pytestmark = [pytest.mark.interop, pytest.mark.slow]

INDEXES = (BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS, RECORD_INDEX)
EXPIRED = {"hoodie.partition.ttl.strategy.days.retain": "1"}
SETTINGS = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}
SKIPPING = ("hoodie.enable.data.skipping", "hoodie.metadata.enable")
WHERE = ("v = 1", "v > 4", "id = 'k000'", "id in ('k001', 'k010')", "v > 0 and part = 'p0'")


@pytest.fixture
def session(hudi_peer: HudiPeer) -> Iterator[HudiPeer]:
    names = ("hoodie.partition.ttl.inline", "hoodie.write.table.version", *EXPIRED, *SKIPPING)
    with hudi_peer.settings(SETTINGS, *names):
        yield hudi_peer


def assert_right(peer: HudiPeer, name: str, small: SmallTable, version: int) -> None:
    peer.run_statement(f"refresh table {name}")
    for where in WHERE:
        query = f"select id, v from {name} where {where}"
        found = peer.sql(query).to_pylist()
        with peer.settings(dict.fromkeys(SKIPPING, "false")):
            expected = peer.sql(query).to_pylist()
        assert sorted(map(str, found)) == sorted(map(str, expected)), where
    table = small.lake().hoodie_table
    assert table.layout.table_version == version
    errors = [f.message for f in check_table(table, keys=True) if f.severity is Severity.ERROR]
    assert errors == []
    assert stale_listing(table) == []
    assert set(table.config.metadata_partitions) == {FILES, *INDEXES}


@pytest.mark.parametrize("version", [8, 9])
def test_partitions_that_expire_leave_the_indexes(
    session: HudiPeer, tmp_path: Path, version: int
) -> None:
    location = StoreLocation.of(tmp_path / "t")
    long_ago = SmallTable.create(
        location,
        FakeClock(),
        {"hoodie.metadata.enable": "true"},
        table_version=version,
    )
    long_ago.write("insert", batch(range(6), 1, partitions=3), options=QUIET)
    for index in (COLUMN_STATS, PARTITION_STATS, RECORD_INDEX, BLOOM_FILTERS):
        long_ago.lake().indexes({}).create(index)
    small = SmallTable(location)
    name = f"ttl{abs(hash(str(tmp_path)))}"
    session.run_statement(f"set hoodie.write.table.version={version}")
    session.run_statement(f"create table {name} using hudi location '{location.uri}'")
    small.write("upsert", batch([1], 2, partitions=3), options=QUIET)
    # Hudi's next write drops p0 and p2, whose newest commits are of long ago.
    for setting, value in {"hoodie.partition.ttl.inline": "true", **EXPIRED}.items():
        session.run_statement(f"set {setting}={value}")
    session.run_statement(f"update {name} set v = 5 where id = 'k004'")
    session.run_statement("reset hoodie.partition.ttl.inline")
    assert small.values() == [("k001", 2), ("k004", 5)]
    assert_right(session, name, small, version)
    # Keys that were in them come back, in another partition too.
    small.write("upsert", batch([0, 7], 6, partitions=3), options=QUIET)
    small.write("upsert", batch([2], 7, partitions=2), options=QUIET)
    assert_right(session, name, small, version)
    session.run_statement(f"update {name} set v = 8 where id = 'k000'")
    session.run_statement(f"insert into {name} (id, v, part) values ('k003', 9, 'p0')")
    assert dict(small.values()) == {
        "k000": 8,
        "k001": 2,
        "k002": 7,
        "k003": 9,
        "k004": 5,
        "k007": 6,
    }
    assert_right(session, name, small, version)
    # And ours, of what was written days ago.
    later = SmallTable(location, FakeClock(small.clock.now_ms() + 3 * 86_400_000))
    later.write("upsert", batch([10], 1, partitions=3), options=QUIET)
    report = later.lake().run("partition_ttl", options=EXPIRED)
    assert report.done
    assert later.values() == [("k001", 2), ("k004", 5), ("k007", 6), ("k010", 1)]
    assert_right(session, name, later, version)
    later.write("upsert", batch([0, 1], 6, partitions=3), options=QUIET)
    assert_right(session, name, later, version)
