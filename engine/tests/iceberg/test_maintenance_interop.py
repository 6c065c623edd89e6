"""Maintenance of tables that Iceberg's Spark runtime made: it, PyIceberg and DuckDB read the same
rows afterwards, of every snapshot that is kept, and Iceberg's own procedures continue from
there."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.clock import SystemClock
from tideline.iceberg.services.expire_snapshots.execute import execute_expire, preview_expire
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions
from tideline.iceberg.services.remove_orphan_files.execute import execute_orphans, plan_orphans
from tideline.iceberg.services.remove_orphan_files.plan import OrphanOptions
from tideline.iceberg.services.rewrite_manifests.execute import execute_manifests
from tideline.iceberg.services.rewrite_manifests.plan import ManifestOptions
from tideline.iceberg.services.rewrite_position_deletes.execute import execute_position_deletes
from tideline.iceberg.services.rewrite_position_deletes.plan import delete_rewrite_options
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import Committed
from tideline.testing.iceberg_peer import IcebergPeer

pytestmark = [pytest.mark.interop, pytest.mark.slow]

EVERYTHING = ExpireOptions(older_than_ms=2**62)
DAY_S = 24 * 60 * 60
YOUNG = "data/young.parquet"


@dataclass(frozen=True)
class WornTable:
    """A table of Spark's with deletes, an overwrite and a tag."""

    peer: IcebergPeer
    name: str

    @classmethod
    def create(cls, peer: IcebergPeer, name: str, *, version: int = 2) -> WornTable:
        table = cls(peer, f"lake.care.{name}")
        peer.run(
            f"create table {table.name} (id bigint, region string) using iceberg "
            f"partitioned by (region) tblproperties ('format-version'='{version}', "
            "'write.delete.mode'='merge-on-read', 'write.delete.granularity'='partition', "
            "'write.distribution-mode'='none', 'commit.manifest-merge.enabled'='false')"
        )
        for start in range(0, 40, 10):
            peer.run(
                f"insert into {table.name} select /*+ coalesce(1) */ id, "
                f"if(id % 2 = 0, 'EU', 'US') from range({start}, {start + 10}) order by id % 2"
            )
        deletes = (f"delete from {table.name} where id = {number}" for number in (3, 13, 5, 23))
        peer.run(*deletes)
        peer.run(f"alter table {table.name} create tag kept")
        peer.run(
            *(f"delete from {table.name} where id = {number}" for number in (4, 15, 25)),
            f"insert overwrite {table.name} partition (region = 'EU') values (100), (102)",
        )
        return table

    @property
    def folder(self) -> Path:
        return self.peer.warehouse / "care" / self.name.rpartition(".")[2]

    def open(self) -> IcebergTable:
        return IcebergTable.open(self.folder)

    def rows(self, suffix: str = "") -> list[tuple[Any, ...]]:
        return in_order(self.peer.sql(f"select * from {self.name} {suffix}"))

    def all_rows(self) -> dict[int, list[tuple[Any, ...]]]:
        """By snapshot, with DuckDB and Spark agreeing on all, PyIceberg on the current one."""
        metadata = self.open().metadata
        found = {
            snapshot.snapshot_id: self.rows(f"version as of {snapshot.snapshot_id}")
            for snapshot in metadata.snapshots
        }
        for snapshot_id, rows in found.items():
            read = self.peer.duckdb_read(str(self.folder), snapshot_id=snapshot_id)
            assert in_order(read) == rows
        current = metadata.current_snapshot_id
        assert current is not None
        assert in_order(self.peer.pyiceberg_read(str(self.folder))) == found[current]
        return found

    def files(self) -> set[Path]:
        """Everything but Hadoop's checksums."""
        return {path for path in self.folder.rglob("*") if path.is_file() and path.name[0] != "."}


def in_order(rows: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in rows.select(["id", "region"]).to_pylist())


@pytest.mark.parametrize("version", [2, 3])
def test_expired_tables_keep_their_rows_and_no_file_too_many(
    iceberg_peer: IcebergPeer, version: int
) -> None:
    table = WornTable.create(iceberg_peer, f"expire{version}", version=version)
    rows = table.all_rows()
    operations = table.open().operations
    preview = preview_expire(operations, EVERYTHING)
    before = table.files()
    run = execute_expire(operations, EVERYTHING)
    assert isinstance(run.outcome, Committed)
    assert run.left == ()
    gone = {Path(file.location.removeprefix("file:")) for file in preview.files}
    assert before - table.files() == gone
    kept = table.all_rows()
    assert len(kept) == 2
    assert kept == {snapshot_id: rows[snapshot_id] for snapshot_id in kept}
    assert table.rows("version as of 'kept'") in kept.values()
    theirs = iceberg_peer.sql(
        "call lake.system.remove_orphan_files(table => 'care."
        f"{table.folder.name}', older_than => timestamp '2020-01-01 00:00:00', dry_run => true)"
    )
    assert theirs.num_rows == 0
    assert plan_orphans(operations, forced()).orphans == ()
    iceberg_peer.run(f"insert into {table.name} values (500, 'EU')")
    assert (500, "EU") in table.rows()


def forced() -> OrphanOptions:
    return OrphanOptions(older_than_ms=SystemClock().now_ms() + 60_000, is_forced=True)


def test_expiry_leaves_the_files_that_icebergs_own_leaves(iceberg_peer: IcebergPeer) -> None:
    ours = WornTable.create(iceberg_peer, "twin_ours")
    theirs = WornTable.create(iceberg_peer, "twin_theirs")
    run = execute_expire(ours.open().operations, EVERYTHING)
    result = iceberg_peer.sql(
        "call lake.system.expire_snapshots(table => 'care.twin_theirs', "
        "older_than => timestamp '2100-01-01 00:00:00', retain_last => 1)"
    ).to_pylist()[0]
    counts = {f"deleted_{name}": count for name, count in run.deleted.json().items()}
    named = {"manifest_lists": "manifest_lists_count"}
    for kind, count in run.deleted.json().items():
        if kind != "bytes":
            key = f"deleted_{named.get(kind, f'{kind}_count')}"
            assert result[key] == count, (key, counts, result)
    assert ours.rows() == theirs.rows()


def test_orphans_are_those_that_iceberg_finds(iceberg_peer: IcebergPeer) -> None:
    table = WornTable.create(iceberg_peer, "orphans")
    rows = table.all_rows()
    names = ("data/region=EU/s.parquet", "metadata/s.avro", "data/_x/s.parquet", YOUNG)
    strays = [table.folder / name for name in names]
    for path in strays:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"stray")
    for path in table.folder.rglob("*"):
        if path.is_file() and path.name != Path(YOUNG).name:
            os.utime(path, (time.time() - 9 * DAY_S,) * 2)
    theirs = iceberg_peer.sql(
        "call lake.system.remove_orphan_files(table => 'care.orphans', dry_run => true)"
    )
    named = {
        Path(entry.removeprefix("file:")) for entry in theirs["orphan_file_location"].to_pylist()
    }
    operations = table.open().operations
    plan = plan_orphans(operations, OrphanOptions())
    found = {Path(orphan.location.removeprefix("file:")) for orphan in plan.orphans}
    assert found == named == set(strays[:2])
    assert plan.left_alone["young"] == 1
    assert len(execute_orphans(operations, plan).deleted) == 2
    assert table.all_rows() == rows


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rewritten_manifests_read_the_same(iceberg_peer: IcebergPeer, version: int) -> None:
    if version == 1:
        table = WornTable(iceberg_peer, "lake.care.manifests1")
        iceberg_peer.run(
            f"create table {table.name} (id bigint, region string) using iceberg partitioned by "
            "(region) tblproperties ('format-version'='1', 'commit.manifest-merge.enabled'='false')"
        )
        for start in range(3):
            iceberg_peer.run(f"insert into {table.name} values ({start}, 'EU'), ({start}, 'US')")
    else:
        table = WornTable.create(iceberg_peer, f"manifests{version}", version=version)
    rows = table.all_rows()
    columns = "id, _row_id, _last_updated_sequence_number"
    lineage = f"select {columns} from {table.name} order by id"
    before = iceberg_peer.sql(lineage) if version == 3 else None
    run = execute_manifests(table.open().operations, ManifestOptions())
    assert isinstance(run.outcome, Committed)
    assert run.replaced_count > len(run.created) > 0
    after = table.all_rows()
    assert after.items() >= rows.items()
    assert table.rows() == after[table.open().metadata.current_snapshot_id or 0]
    assert sorted(after.values())[-1] is not None
    if before is not None:
        assert iceberg_peer.sql(lineage) == before
        read = iceberg_peer.duckdb_read(str(table.folder), columns=columns)
        assert read.sort_by("id").to_pylist() == before.to_pylist()
    assert table.rows("where region = 'EU'") == [row for row in table.rows() if row[1] == "EU"]
    iceberg_peer.run(
        f"call lake.system.rewrite_manifests('care.{table.folder.name}')",
        f"insert into {table.name} values (500, 'EU')",
    )
    assert (500, "EU") in table.rows()


def test_rewritten_position_deletes_read_the_same(iceberg_peer: IcebergPeer) -> None:
    table = WornTable.create(iceberg_peer, "deletes")
    rows = table.all_rows()
    current = table.rows()
    operations = table.open().operations
    options = delete_rewrite_options({"min-input-files": "2"}, {})
    run = execute_position_deletes(operations, options)
    assert [type(outcome) for outcome in run.outcomes] == [Committed]
    assert run.files_added < run.files_removed
    assert table.rows() == current
    assert table.all_rows().items() >= rows.items()
    listed = iceberg_peer.read(f"{table.folder}#position_deletes")
    assert listed.num_rows == run.positions_added
    iceberg_peer.run(
        f"delete from {table.name} where id = 7",
        "call lake.system.rewrite_position_delete_files(table => 'care.deletes', "
        "options => map('rewrite-all', 'true'))",
        "call lake.system.rewrite_data_files(table => 'care.deletes', "
        "options => map('rewrite-all', 'true'))",
    )
    assert table.rows() == [pair for pair in current if pair[0] != 7]


def test_all_four_one_after_the_other(iceberg_peer: IcebergPeer) -> None:
    table = WornTable.create(iceberg_peer, "all_four")
    current, tagged = table.rows(), table.rows("version as of 'kept'")
    operations = table.open().operations
    execute_position_deletes(operations, delete_rewrite_options({"rewrite-all": "true"}, {}))
    execute_manifests(operations, ManifestOptions())
    execute_expire(operations, EVERYTHING)
    plan = plan_orphans(operations, forced())
    assert plan.orphans == ()
    assert table.rows() == current
    assert table.rows("version as of 'kept'") == tagged
    assert len(table.all_rows()) == 2
