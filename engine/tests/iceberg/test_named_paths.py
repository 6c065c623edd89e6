"""What metadata names is deleted only where it is the table's; the rest is left, and said so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.iceberg.manifest.manifest_reading import manifests_of
from tideline.iceberg.services.expire_snapshots.execute import (
    ExpireRun,
    execute_expire,
    preview_expire,
)
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions
from tideline.iceberg.services.remove_orphan_files.execute import execute_orphans, plan_orphans
from tideline.iceberg.services.remove_orphan_files.plan import OrphanOptions
from tideline.iceberg.table.clean_up import remove_old_metadata
from tideline.iceberg.table.file_system_table import FileSystemTable
from tideline.iceberg.table.table_roots import TableRoots
from tideline.storage.local.store import LocalStore
from tideline.storage.location import StoreLocation
from tideline.testing.fake_clock import FakeClock
from tideline.testing.iceberg_audit import referenced, rows_by_snapshot, stored
from tideline.testing.iceberg_model import IcebergModel

EVERYTHING = ExpireOptions(older_than_ms=2**62)
LATER = FakeClock(2**42)


def worn(*statistics: str) -> IcebergModel:
    """A table with an expired snapshot that these statistics are of, by path."""
    model = IcebergModel.create()
    model.append(range(4))
    first = model.metadata().current_snapshot_id
    model.overwrite([1])
    document = model.metadata().json()
    item = {"snapshot-id": first, "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1}
    document["statistics"] = [{**item, "statistics-path": path} for path in statistics]
    newest = model.operations().load()
    store = model.location.open()
    store.put(f"metadata/v{newest.version}.metadata.json", json.dumps(document).encode())
    return model


def expire(model: IcebergModel) -> ExpireRun:
    return execute_expire(model.operations(), EVERYTHING, clock=LATER)


def test_expiry_leaves_what_lies_elsewhere_and_says_so() -> None:
    elsewhere = StoreLocation.of("memory://elsewhere").open()
    elsewhere.put("warehouse/precious.parquet", b"")
    path = "memory://elsewhere/warehouse/precious.parquet"
    model = worn(path)
    preview = preview_expire(model.operations(), EVERYTHING, clock=LATER)
    run = expire(model)
    assert run.left == preview.left == (f"{path}: it lies outside of the table's folders",)
    assert elsewhere.head("warehouse/precious.parquet") is not None
    assert stored(model) == referenced(model)


@pytest.mark.parametrize("kind", ["data", "metadata", "manifest", "hudi", "up"])
def test_statistics_that_name_what_is_in_use_are_left(kind: str) -> None:
    plain = worn()
    root = plain.location.uri
    used = sorted(referenced(plain))
    newest = plain.metadata().snapshot()
    assert newest is not None
    (manifest, *_) = manifests_of(plain.operations().io, newest)
    path = {
        "data": next(name for name in used if name.startswith("data/")),
        "metadata": "metadata/v2.metadata.json",
        "manifest": manifest.path.removeprefix(f"{root}/"),
        "hudi": "metadata/.hoodie/hoodie.properties",
        "up": "metadata/../../other/x",
    }[kind]
    document = plain.metadata().json()
    item = {"snapshot-id": plain.metadata().snapshots[0].snapshot_id, "file-size-in-bytes": 1}
    document["statistics"] = [{**item, "statistics-path": f"{root}/{path}"}]
    store = plain.location.open()
    version = plain.operations().load().version
    store.put(f"metadata/v{version}.metadata.json", json.dumps(document).encode())
    if kind == "hudi":
        store.put(path, b"")
    rows = rows_by_snapshot(plain)
    run = expire(plain)
    assert any(reason.startswith(f"{root}/{path}: ") for reason in run.left)
    left = rows_by_snapshot(plain)
    assert left == {snapshot_id: rows[snapshot_id] for snapshot_id in left}
    assert kind in ("data", "up") or store.head(path) is not None


def test_folders_that_properties_declare_are_the_tables() -> None:
    model = worn()
    metadata = model.metadata()
    declared = {
        "write.data.path": "memory://data/of/table",
        "write.metadata.path": "memory://whole-bucket",
        "write.object-storage.path": model.location.uri.rpartition("/")[0],
    }
    metadata = metadata.of({**metadata.json(), "properties": declared})
    io = model.operations().io
    unread = TableRoots.of(io, metadata)
    assert unread.refusal("memory://data/of/table/x") == "it lies outside of the table's folders"
    roots = TableRoots.of(io.also_at(["memory://data/of", "memory://whole-bucket"]), metadata)
    assert roots.refusal("memory://data/of/table/x") is None
    assert roots.refusal(f"{model.location.uri}/data/x") is None
    around = model.location.uri.rpartition("/")[0]
    for uri in ("memory://data/of/table2/x", "memory://whole-bucket/x", f"{around}/other/x"):
        assert roots.refusal(uri) == "it lies outside of the table's folders"
    with pytest.raises(CorruptTableError, match="outside of the table's folders"):
        roots.remove_many([f"{model.location.uri}/data/x", f"{around}/other/x"], "the test")


def test_the_log_of_metadata_files_names_nothing_else() -> None:
    model = worn()
    elsewhere = StoreLocation.of("memory://elsewhere").open()
    elsewhere.put("v1.metadata.json", b"")
    before = stored(model)
    data = next(path for path in before if path.startswith("data/"))
    dropped = ("memory://elsewhere/v1.metadata.json", f"{model.location.uri}/{data}")
    own = f"{model.location.uri}/metadata/v1.metadata.json"
    remove_old_metadata(model.operations().io, model.metadata(), (*dropped, own))
    assert stored(model) == before - {"metadata/v1.metadata.json"}
    assert elsewhere.head("v1.metadata.json") is not None


def test_a_hudi_table_in_the_folder_has_no_orphans() -> None:
    model = worn()
    store = model.location.open()
    for path in ("in/.hoodie/hoodie.properties", "in/p/a.parquet", "in2/p/b.parquet"):
        store.put(path, b"")
    plan = plan_orphans(model.operations(), OrphanOptions(), clock=LATER)
    names = {orphan.location.removeprefix(f"{model.location.uri}/") for orphan in plan.orphans}
    assert "in2/p/b.parquet" in names
    assert not [name for name in names if name.startswith("in/")]
    assert plan.left_alone["of other tables"] == 1
    store.put(".hoodie/hoodie.properties", b"")
    with pytest.raises(UnsupportedTableError, match="a Hudi table lies in the same folder"):
        plan_orphans(model.operations(), OrphanOptions(), clock=LATER)


def test_orphan_removal_does_not_follow_a_link_out_of_the_folder(tmp_path: Path) -> None:
    outside = LocalStore(str(tmp_path / "outside"))
    outside.put("precious.parquet", b"")
    model = worn()
    location = StoreLocation.of(str(tmp_path / "table"))
    for info in model.location.open().list():
        location.open().put(info.path, model.location.open().get(info.path))
    (tmp_path / "table" / "data" / "link").symlink_to(tmp_path / "outside")
    table = FileSystemTable(location)
    with pytest.raises(UnsupportedTableError, match="leads out of the folder"):
        execute_orphans(table, plan_orphans(table, OrphanOptions(), clock=LATER))
    assert outside.head("precious.parquet") is not None
