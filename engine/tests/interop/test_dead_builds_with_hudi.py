"""Builds of indexes of ours that died half-way, which Hudi's writer with its defaults meets, and we
after it: queries with data skipping and indexes find what those without find."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.hudi.table.table_config import COLUMN_STATS, PARTITION_STATS, RECORD_INDEX
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.indexed_hudi_table import SECONDARY, IndexedHudiTable, skipping_settings
from tideline.testing.small_table import QUIET, batch

pytestmark = [pytest.mark.interop, pytest.mark.slow]

WHERE = ("v = 7", "id = 'k001'", "id in ('k000', 'k009')", "v > 4 and part = 'p1'")
MOMENTS = {
    "nothing committed": FaultPlan(crash_before_write=1, among=".deltacommit.inflight"),
    "half its files": FaultPlan(crash_after_write=2, among=".log.1_0-0-0"),
    "before the definition": FaultPlan(crash_before_write=1, among="index.json"),
    "before the list": FaultPlan(crash_after_write=1, among="index.json"),
}
"""When a build dies."""


@pytest.fixture
def session(hudi_peer: HudiPeer) -> Iterator[HudiPeer]:
    with skipping_settings(hudi_peer):
        yield hudi_peer


CASES = [
    *((SECONDARY, 9, moment, False) for moment in MOMENTS),
    (SECONDARY, 9, "before the list", True),
    (SECONDARY, 8, "before the list", False),
    (RECORD_INDEX, 9, "half its files", False),
    (RECORD_INDEX, 9, "before the list", False),
    (RECORD_INDEX, 8, "before the list", True),
    (COLUMN_STATS, 9, "before the list", False),
    (PARTITION_STATS, 9, "before the list", True),
    ("bloom_filters", 8, "half its files", False),
]


@pytest.mark.parametrize(("index", "version", "moment", "ours_first"), CASES)
def test_hudi_continues_after_a_build_that_died(
    session: HudiPeer, tmp_path: Path, index: str, version: int, moment: str, ours_first: bool
) -> None:
    written = IndexedHudiTable.create(session, tmp_path / "t", version, index)
    small = written.small
    store = FaultyStore(small.store(), MOMENTS[moment], kernel_locks=True)
    with contextlib.suppress(SimulatedCrash):
        small.lake(store).indexes({}).create(index)
    assert index not in written.opened().config.metadata_partitions or not store.is_dead
    if ours_first:
        small.write("upsert", batch([1, 9], 7), options=QUIET)
        written.assert_right(WHERE)
    written.sql("update {} set v = 7 where id = 'k000'")
    written.sql("insert into {} (id, v, part) values ('k011', 7, 'p1')")
    written.assert_right(WHERE)
    small.write("upsert", batch([2, 9], 7), options=QUIET)
    small.write("delete", batch([3], 7), options=QUIET)
    written.assert_right(WHERE)
    written.make_missing(index)
    written.assert_right(WHERE)
    written.sql("update {} set v = 7 where id = 'k004'")
    written.assert_right(WHERE)
