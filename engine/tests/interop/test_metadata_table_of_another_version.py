"""Tables of version 9 whose metadata table Hudi made in version 8: commits of ours keep it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.check_finding import Severity
from tideline.hudi.check.run import check_table
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import stale_listing

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SKIPPING = ("hoodie.enable.data.skipping", "hoodie.metadata.enable")
WHERE = ("v = 7", "id = 'k001'", "id in ('k000', 'k009')", "v > 4")


@pytest.fixture
def session(hudi_peer: HudiPeer) -> Iterator[HudiPeer]:
    """Its CREATE TABLE AS SELECT takes the version of the session for the metadata table alone."""
    settings = {"hoodie.write.table.version": "8", "hoodie.write.auto.upgrade": "false"}
    with hudi_peer.settings(settings, *SKIPPING):
        yield hudi_peer


def test_both_engines_keep_what_hudi_made(session: HudiPeer, tmp_path: Path) -> None:
    name, folder = f"v{abs(hash(str(tmp_path)))}", tmp_path / "t"
    session.run_statement(
        f"create table {name} using hudi tblproperties(primaryKey = 'id', type = 'cow', "
        "'hoodie.metadata.record.index.enable' = 'true') "
        f"partitioned by (part) location '{folder}' as "
        "select * from values ('k000', 1L, 'p0'), ('k001', 2L, 'p1') as t(id, v, part)"
    )
    small = SmallTable(StoreLocation.of(folder))

    def assert_kept() -> None:
        table = small.lake().hoodie_table
        metadata = MetadataTable(table.store, table.clock)
        assert (table.config.version, metadata.layout.table_version) == (9, 8)
        listed = {"column_stats", "files", "partition_stats", "record_index"}
        assert set(table.config.metadata_partitions) == listed
        errors = [f for f in check_table(table, keys=True) if f.severity is Severity.ERROR]
        assert errors == []
        assert stale_listing(table) == []
        session.run_statement(f"refresh table {name}")
        for where in WHERE:
            query = f"select id, v from {name} where {where}"
            rows = session.sql(query).to_pylist()
            with session.settings(dict.fromkeys(SKIPPING, "false")):
                expected = session.sql(query).to_pylist()
            assert sorted(map(str, rows)) == sorted(map(str, expected)), where

    assert_kept()
    for turn in range(3):
        small.write("upsert", batch([1, 9 + turn], 7 + turn))
        assert_kept()
        session.run_statement(f"update {name} set v = 7 where id = 'k000'")
        session.run_statement(
            f"insert into {name} (id, v, part) values ('k02{turn}', {turn}, 'p1')"
        )
        assert_kept()
    small.write("delete", batch([1], 1))
    assert_kept()
    assert {key for key, _ in small.values()} >= {"k000", "k009", "k020"}
