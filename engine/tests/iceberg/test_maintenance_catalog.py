"""Maintenance of a table that a SQL catalog keeps: PyIceberg reads the same rows afterwards."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tideline.iceberg.metadata.snapshot import SnapshotRef
from tideline.iceberg.services.expire_snapshots.execute import execute_expire, preview_expire
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions
from tideline.iceberg.services.remove_orphan_files.execute import execute_orphans, plan_orphans
from tideline.iceberg.services.remove_orphan_files.plan import OrphanOptions
from tideline.iceberg.services.rewrite_manifests.execute import execute_manifests
from tideline.iceberg.services.rewrite_manifests.plan import ManifestOptions
from tideline.iceberg.table.table_operations import Committed
from tideline.testing.fake_clock import FakeClock
from tideline.testing.hostile_catalog import TOKEN, Answer, Received
from tideline.testing.iceberg_audit import rows_by_snapshot, set_ref

pytest.importorskip("pyiceberg")

from pyiceberg.catalog.sql import SqlCatalog

from tideline.iceberg.table.catalog_opening import open_catalog
from tideline.iceberg.table.catalog_table import CatalogTable
from tideline.testing.served_catalog import ServedCatalog

NAME = "lake.orders"
EVERYTHING = ExpireOptions(older_than_ms=2**62)


class Lake:
    """A catalog with one table of four snapshots, the second of them tagged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalog = SqlCatalog(
            "test", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}"
        )
        self.catalog.create_namespace("lake")
        table = self.catalog.create_table(NAME, pa.schema([("id", pa.int64())]))
        for start in (0, 10):
            table.append(pa.table({"id": list(range(start, start + 10))}))
        current = table.metadata.current_snapshot_id
        assert current is not None
        table.manage_snapshots().create_tag(current, "kept").commit()
        table.delete("id = 3")
        table.append(pa.table({"id": [20]}))

    def open(self) -> CatalogTable:
        return CatalogTable(self.catalog, NAME)

    def rows(self, snapshot_id: int | None = None) -> list[int]:
        scan = self.catalog.load_table(NAME).scan(snapshot_id=snapshot_id)
        return sorted(scan.to_arrow()["id"].to_pylist())

    def tagged(self) -> list[int]:
        return self.rows(self.catalog.load_table(NAME).metadata.refs["kept"].snapshot_id)

    def files(self) -> set[Path]:
        return {path for path in (self.folder / "lake").rglob("*") if path.is_file()}


CURRENT = [*range(3), *range(4, 21)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_snapshots_expire_through_the_catalog(lake: Lake) -> None:
    preview = preview_expire(lake.open(), EVERYTHING)
    before = lake.files()
    run = execute_expire(lake.open(), EVERYTHING)
    assert isinstance(run.outcome, Committed)
    assert run.left == ()
    gone = {Path(file.location.removeprefix("file://")) for file in preview.files}
    assert before - lake.files() == gone != set()
    assert len(lake.catalog.load_table(NAME).metadata.snapshots) == 2
    assert (lake.rows(), lake.tagged()) == (CURRENT, list(range(20)))
    assert execute_expire(lake.open(), EVERYTHING).outcome is None


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_branch_or_tag_that_moves_before_the_commit_is_expired_around(kind: str) -> None:
    with ServedCatalog() as catalog:
        model = catalog.create(NAME)
        for number in range(4):
            model.append([number])
        oldest, *_, newest = (snapshot.snapshot_id for snapshot in model.metadata().snapshots)
        set_ref(model, "audit", SnapshotRef(newest, kind))

        def moved(request: Received) -> Answer:
            if request.kind == "commit":
                catalog.reply = catalog.honest
                set_ref(model, "audit", SnapshotRef(oldest, kind))
            return catalog.honest(request)

        catalog.reply = moved
        opened = open_catalog("lake", {"uri": catalog.url}, credentials={"token": TOKEN})
        operations = CatalogTable(opened, NAME, clock=FakeClock())
        run = execute_expire(operations, EVERYTHING, clock=FakeClock())
        assert isinstance(run.outcome, Committed)
        metadata = model.metadata()
        assert metadata.refs["audit"].snapshot_id == oldest
        assert {snapshot.snapshot_id for snapshot in metadata.snapshots} == {oldest, newest}
        assert rows_by_snapshot(model) == {oldest: [0], newest: [0, 1, 2, 3]}


def test_orphans_are_found_and_all_metadata_files_in_the_log_stay(lake: Lake) -> None:
    stray = next(path for path in lake.files() if path.suffix == ".parquet").with_name("s.parquet")
    stray.write_bytes(b"s")
    options = OrphanOptions(older_than_ms=2**62, is_forced=True)
    plan = plan_orphans(lake.open(), options)
    assert [Path(orphan.location.removeprefix("file://")) for orphan in plan.orphans] == [stray]
    execute_orphans(lake.open(), plan)
    assert not stray.exists()
    assert (lake.rows(), lake.tagged()) == (CURRENT, list(range(20)))


def test_manifests_are_rewritten_through_the_catalog(lake: Lake) -> None:
    run = execute_manifests(lake.open(), ManifestOptions())
    assert isinstance(run.outcome, Committed)
    assert len(run.created) == 1 < run.replaced_count
    assert (lake.rows(), lake.tagged()) == (CURRENT, list(range(20)))
    assert execute_manifests(lake.open(), ManifestOptions()).outcome is None
    lake.catalog.load_table(NAME).append(pa.table({"id": [21]}))
    assert lake.rows() == [*CURRENT, 21]
