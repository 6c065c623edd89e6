"""Builds of indexes of ours that died half-way, which Hudi's writer with its defaults meets, and we
after it: queries with data skipping and indexes find what those without find."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tideline.check_finding import Severity
from tideline.hudi.check.run import check_table
from tideline.hudi.metadata_table.index_definitions import believed_without_partition
from tideline.hudi.table.table_config import COLUMN_STATS, PARTITION_STATS, RECORD_INDEX
from tideline.storage.location import StoreLocation
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.small_table import QUIET, SmallTable, batch
from tideline.testing.table_audit import stale_listing

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SECONDARY = "secondary_index_v"
NEEDED = {PARTITION_STATS: COLUMN_STATS, SECONDARY: RECORD_INDEX}
SETTINGS = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.write.auto.upgrade": "false",
}
WHERE = ("v = 7", "id = 'k001'", "id in ('k000', 'k009')", "v > 4 and part = 'p1'")
SKIPPING = ("hoodie.enable.data.skipping", "hoodie.metadata.enable")
MOMENTS = {
    "nothing committed": FaultPlan(crash_before_write=1, among=".deltacommit.inflight"),
    "half its files": FaultPlan(crash_after_write=2, among=".log.1_0-0-0"),
    "before the definition": FaultPlan(crash_before_write=1, among="index.json"),
    "before the list": FaultPlan(crash_after_write=1, among="index.json"),
}
"""When a build dies."""


@dataclass
class Written:
    """A table of ours that Hudi's SQL has under a name."""

    peer: HudiPeer
    small: SmallTable
    name: str

    def sql(self, statement: str) -> None:
        self.peer.run_statement(statement.format(self.name))

    def assert_right(self) -> None:
        self.sql("refresh table {}")
        for where in WHERE:
            query = f"select id, v from {self.name} where {where}"
            found = self.peer.sql(query).to_pylist()
            with self.peer.settings(dict.fromkeys(SKIPPING, "false")):
                expected = self.peer.sql(query).to_pylist()
            assert sorted(map(str, found)) == sorted(map(str, expected)), where
        table = self.small.lake().hoodie_table
        errors = [f for f in check_table(table, keys=True) if f.severity is Severity.ERROR]
        assert errors == []
        assert stale_listing(table) == []
        assert believed_without_partition(table, table.config.metadata_partitions) == ()


@pytest.fixture
def session(hudi_peer: HudiPeer) -> Iterator[HudiPeer]:
    with hudi_peer.settings(SETTINGS, *SKIPPING, "hoodie.write.table.version"):
        yield hudi_peer


CASES = [
    *((SECONDARY, 9, moment, False) for moment in MOMENTS),
    (SECONDARY, 9, "before the list", True),
    (SECONDARY, 8, "before the list", False),
    (RECORD_INDEX, 9, "half its files", False),
    (PARTITION_STATS, 9, "before the list", True),
    ("bloom_filters", 8, "half its files", False),
]


@pytest.mark.parametrize(("index", "version", "moment", "ours_first"), CASES)
def test_hudi_continues_after_a_build_that_died(
    session: HudiPeer, tmp_path: Path, index: str, version: int, moment: str, ours_first: bool
) -> None:
    small = SmallTable.create(
        StoreLocation.of(tmp_path / "t"),
        table_version=version,
        properties={"hoodie.metadata.enable": "true"},
    )
    small.write("insert", batch(range(6), 1), options=QUIET)
    if index in NEEDED:
        small.lake().indexes({}).create(NEEDED[index])
    store = FaultyStore(small.store(), MOMENTS[moment], kernel_locks=True)
    with contextlib.suppress(SimulatedCrash):
        small.lake(store).indexes({}).create(index)
    assert index not in small.lake().hoodie_table.config.metadata_partitions or not store.is_dead
    name = f"d{abs(hash(str(tmp_path)))}"
    session.run_statement(f"set hoodie.write.table.version={version}")
    session.run_statement(f"create table {name} using hudi location '{tmp_path / 't'}'")
    written = Written(session, small, name)
    if ours_first:
        small.write("upsert", batch([1, 9], 7), options=QUIET)
        written.assert_right()
    written.sql("update {} set v = 7 where id = 'k000'")
    written.sql("insert into {} (id, v, part) values ('k011', 7, 'p1')")
    written.assert_right()
    small.write("upsert", batch([2, 9], 7), options=QUIET)
    small.write("delete", batch([3], 7), options=QUIET)
    written.assert_right()
    if index not in small.lake().hoodie_table.config.metadata_partitions:
        for needed in (NEEDED.get(index, index), index):
            if needed not in small.lake().hoodie_table.config.metadata_partitions:
                small.lake().indexes({}).create(needed)
    written.assert_right()
    written.sql("update {} set v = 7 where id = 'k004'")
    written.assert_right()
