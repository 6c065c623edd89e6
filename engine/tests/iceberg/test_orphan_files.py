"""Which files are orphans, and that nothing else is ever deleted."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tideline
from tideline.errors import ConfigError, ConflictError, StorageUnavailableError
from tideline.iceberg.commit.rewrite_files import commit_rewrite
from tideline.iceberg.metadata.metadata_update import SetProperties
from tideline.iceberg.metadata.partition_spec import PartitionField, PartitionSpec, Transform
from tideline.iceberg.services.expire_snapshots.execute import execute_expire
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions
from tideline.iceberg.services.remove_orphan_files.execute import execute_orphans, plan_orphans
from tideline.iceberg.services.remove_orphan_files.plan import (
    HiddenPaths,
    OrphanOptions,
    OrphanPlan,
    PrefixMismatch,
    ReachablePaths,
    SharedFolder,
    UriRules,
)
from tideline.iceberg.services.service import DRY_RUN
from tideline.iceberg.table.file_system_table import FileSystemTable
from tideline.iceberg.table.table_operations import Committed
from tideline.storage.location import StoreLocation
from tideline.testing.fake_clock import FakeClock
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.iceberg_audit import referenced, rows_by_snapshot, stored
from tideline.testing.iceberg_model import IcebergModel

DAY_MS = 24 * 60 * 60 * 1000
STRAYS = ("data/parity=odd/lost.parquet", "metadata/lost-m0.avro", "metadata/v0.metadata.json")


def later(days: float = 30) -> FakeClock:
    """The store stamps objects with the machine's time."""
    return FakeClock(time.time_ns() // 1_000_000 + int(days * DAY_MS))


def table(version: int = 2, properties: Mapping[str, str] | None = None) -> IcebergModel:
    model = IcebergModel.create(format_version=version, properties=properties)
    model.append(range(10))
    if version > 1:
        model.delete_by_position([3])
    assert isinstance(commit_rewrite(model.operations(), model.plan_rewrite()), Committed)
    model.append([20, 21])
    return model


def put(model: IcebergModel, *paths: str) -> None:
    for path in paths:
        model.location.open().put(path, b"12345")


def plan(model: IcebergModel, clock: FakeClock | None = None, **options: Any) -> OrphanPlan:
    chosen = OrphanOptions(**options)
    return plan_orphans(model.operations(), chosen, clock=clock or later())


def found(model: IcebergModel, plan: OrphanPlan) -> set[str]:
    root = f"{model.metadata().location}/"
    return {orphan.location.removeprefix(root) for orphan in plan.orphans}


def set_properties(model: IcebergModel, **properties: str) -> None:
    named = {name.replace("__", "-").replace("_", "."): text for name, text in properties.items()}
    operations = model.operations()
    outcome = operations.commit(operations.load(), (), (SetProperties(named),))
    assert isinstance(outcome, Committed)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_strays_are_found_and_everything_reachable_stays(version: int) -> None:
    model = table(version)
    rows = rows_by_snapshot(model)
    put(model, *STRAYS)
    planned = plan(model)
    assert found(model, planned) == set(STRAYS)
    assert planned.size_bytes == 15
    assert planned.left_alone["referenced"] == len(referenced(model))
    assert set(STRAYS) <= stored(model)
    run = execute_orphans(model.operations(), planned)
    assert (run.deleted, run.saved) == (planned.orphans, ())
    assert stored(model) == referenced(model)
    assert rows_by_snapshot(model) == rows
    assert plan(model).orphans == ()


def test_what_expiry_left_is_an_orphan() -> None:
    model = table()
    everything = ExpireOptions(older_than_ms=2**62, clean_expired_files=False)
    execute_expire(model.operations(), everything)
    planned = plan(model)
    assert found(model, planned) == stored(model) - referenced(model) != set()


def test_a_moved_table_is_listed_where_it_is() -> None:
    original = table()
    moved = original.copy()
    put(moved, *STRAYS)
    planned = plan(moved)
    assert found(moved, planned) == set(STRAYS)
    before = stored(original)
    execute_orphans(moved.operations(), planned)
    assert stored(moved) == referenced(moved)
    assert stored(original) == before


def test_three_days_protect_by_default_and_less_than_one_must_be_forced() -> None:
    model = table()
    put(model, *STRAYS)
    young = plan(model, later(2.9))
    assert young.orphans == ()
    assert young.left_alone["young"] == len(stored(model))
    assert len(plan(model, later(3.1)).orphans) == len(STRAYS)
    clock = later(0.5)
    with pytest.raises(ConfigError, match="24 hours"):
        plan(model, clock, older_than_ms=clock.now_ms() - DAY_MS + 1)
    forced = plan(model, clock, older_than_ms=clock.now_ms(), is_forced=True)
    assert len(forced.orphans) == len(STRAYS)


def test_hidden_files_are_left_unless_a_partition_is_called_so() -> None:
    model = table()
    put(model, "_temporary/a", "data/.hidden/b", "data/_SUCCESS", ".crc", "data/c._d")
    planned = plan(model)
    assert found(model, planned) == {"data/c._d"}
    assert planned.left_alone["hidden"] == 4
    field = PartitionField(2, 1000, "_day", Transform("identity"))
    hidden = HiddenPaths.of([PartitionSpec(0, (field,))])
    assert not hidden.hides("data/_day=1/a.parquet")
    assert hidden.hides("data/_day=1/_a.parquet")
    assert hidden.hides("data/_other=1/a.parquet")


def test_a_table_inside_the_folder_keeps_all_its_files() -> None:
    model = table()
    put(model, "nested/data/a.parquet", "nested/metadata/v1.metadata.json", "alone/x.parquet")
    planned = plan(model)
    assert found(model, planned) == {"alone/x.parquet"}
    assert planned.left_alone["of other tables"] == 2


def test_a_folder_around_the_table_is_refused() -> None:
    model = table()
    around = model.location.uri.rpartition("/")[0]
    with pytest.raises(ConfigError, match="may hold other tables"):
        plan(model, locations=(around,))


def test_a_folder_outside_the_table_is_looked_at_and_searched_only_when_named() -> None:
    model = table()
    outside = model.location.uri.replace("/table", "/elsewhere")
    set_properties(model, write_data_path=outside)
    store = StoreLocation.of(outside).open()
    store.put("parity=odd/lost.parquet", b"1")
    store.put("_temporary/a", b"1")
    assert plan(model).orphans == ()
    assert plan(model).shared == (SharedFolder(outside, 1, 1),)
    assert plan(model, later(2)).shared == (SharedFolder(outside, 0, 0),)
    store.delete("_temporary/a")
    planned = plan(model, locations=(model.location.uri, outside))
    assert planned.locations == (model.location.uri, outside)
    assert planned.shared == ()
    assert [orphan.location for orphan in planned.orphans] == [f"{outside}/parity=odd/lost.parquet"]
    execute_orphans(model.operations(), planned)
    assert list(StoreLocation.of(outside).open().list()) == []
    put(model, *STRAYS)
    only = plan(model, locations=(f"{model.location.uri}/metadata",))
    assert found(model, only) == {stray for stray in STRAYS if stray.startswith("metadata/")}


def test_a_shared_object_storage_folder_gives_only_paths_with_the_tables_name() -> None:
    model = table()
    bucket, name = model.location.uri.removeprefix("memory://").split("/")
    shared = f"memory://{bucket}/spread"
    set_properties(
        model,
        write_object__storage_enabled="true",
        write_data_path=shared,
    )
    store = StoreLocation.of(shared).open()
    store.put(f"0101/{bucket}/{name}/own.parquet", b"1")
    store.put(f"0101/{bucket}/other/not-own.parquet", b"1")
    assert plan(model).shared == (SharedFolder(shared, 1, 1),)
    planned = plan(model, locations=(shared,))
    assert [orphan.location.rpartition("/")[2] for orphan in planned.orphans] == ["own.parquet"]
    assert planned.left_alone["of other tables"] == 1


def test_a_table_that_shares_its_files_is_refused() -> None:
    model = table(properties={"gc.enabled": "false"})
    with pytest.raises(ConfigError, match=r"gc\.enabled is false"):
        plan(model)


def test_files_that_a_commit_took_in_after_the_plan_are_saved() -> None:
    model = table()
    files = model.files()
    added = files.write_rows([30, 31], 0)
    planned = plan(model)
    paths = {file.file_path for file in added}
    assert {orphan.location for orphan in planned.orphans} == paths
    removed = tuple(e.data_file for e in model.files().data() if e.data_file.record_count == 1)
    rewrite = replace(model.plan_rewrite(), removed_data=removed, added_data=tuple(added))
    rewrite = replace(rewrite, starting_snapshot_id=model.metadata().snapshots[-1].snapshot_id)
    assert isinstance(commit_rewrite(model.operations(), rewrite), Committed)
    run = execute_orphans(model.operations(), planned)
    assert run.deleted == ()
    assert {orphan_file.location for orphan_file in run.saved} == paths
    assert {30, 31} <= set(model.rows())


def test_another_table_at_the_same_place_is_a_conflict() -> None:
    model = table()
    put(model, *STRAYS)
    planned = plan(model)
    other = IcebergModel.create().location.open()
    model.location.open().put("metadata/version-hint.text", b"1")
    for path in stored(model):
        if path.endswith(".metadata.json"):
            model.location.open().delete(path)
    model.location.open().put("metadata/v1.metadata.json", other.get("metadata/v1.metadata.json"))
    with pytest.raises(ConflictError, match="another table"):
        execute_orphans(model.operations(), planned)


def test_a_second_run_finishes_what_a_crash_left() -> None:
    model = table()
    put(model, *STRAYS)
    planned = plan(model)
    store = FaultyStore(model.location.open(), FaultPlan(crash_after_write=2))
    with pytest.raises(SimulatedCrash):
        execute_orphans(FileSystemTable(model.location, store=store), planned)
    assert len(plan(model).orphans) == 1
    execute_orphans(model.operations(), planned)
    assert stored(model) == referenced(model)


def test_nothing_goes_when_any_metadata_cannot_be_read() -> None:
    model = table()
    put(model, *STRAYS)
    counted = FaultyStore(model.location.open())
    plan_orphans(FileSystemTable(model.location, store=counted), OrphanOptions(), clock=later())
    for number in range(1, counted.calls + 1):
        fault = FaultPlan(unavailable_calls=frozenset([number]))
        store = FaultyStore(model.location.open(), fault)
        with pytest.raises(StorageUnavailableError):
            plan_orphans(FileSystemTable(model.location, store=store), OrphanOptions())
    assert set(STRAYS) <= stored(model)


RULES = UriRules.of(
    OrphanOptions(equal_schemes={"oss, cos": "s3"}, equal_authorities={"alias": "bucket"})
)


@pytest.mark.parametrize(
    ("recorded", "listed", "is_same"),
    [
        ("s3a://bucket/a", "s3://bucket/a", True),
        ("s3n://bucket/a", "s3://bucket/a", True),
        ("oss://bucket/a", "s3://bucket/a", True),
        ("cos://alias/a", "s3://bucket/a", True),
        ("file:/a/b", "file:///a/b", True),
        ("/a/b", "file:///a/b", True),
        ("gs://bucket/a", "s3://bucket/a", False),
        ("s3://other/a", "s3://bucket/a", False),
    ],
)
def test_locations_are_compared_as_iceberg_does(recorded: str, listed: str, is_same: bool) -> None:
    reachable = ReachablePaths()
    reachable.add(RULES.parse(recorded))
    file = RULES.parse(listed)
    assert reachable.is_known(file.path)
    assert (reachable.mismatch(file) is None) is is_same
    reachable.add(file)
    assert reachable.mismatch(file) is None


def test_mismatched_prefixes_are_an_error_ignored_or_orphans() -> None:
    model = table()
    listed = f"{model.location.uri}/data/stray.parquet"
    put(model, "data/stray.parquet")
    named = listed.replace("memory://", "memory://other-")
    operations = model.operations()
    document = {"snapshot-id": 1, "statistics-path": named, "file-size-in-bytes": 1}
    loaded = operations.load()
    body = replace(
        loaded.metadata, document={**loaded.metadata.document, "statistics": [document]}
    ).to_bytes()
    model.location.open().put(f"metadata/v{loaded.version}.metadata.json", body)
    with pytest.raises(ConfigError, match=r"equal_schemes.*other-"):
        plan(model)
    ignored = plan(model, prefix_mismatch=PrefixMismatch.IGNORE)
    assert (ignored.orphans, ignored.left_alone["mismatched"]) == ((), 1)
    deleted = plan(model, prefix_mismatch=PrefixMismatch.parse("DELETE"))
    assert found(model, deleted) == {"data/stray.parquet"}
    bucket = model.location.uri.removeprefix("memory://").partition("/")[0]
    equal = plan(model, equal_authorities={f"other-{bucket}": bucket})
    assert equal.orphans == ()
    with pytest.raises(ConfigError, match="ERROR, IGNORE, DELETE"):
        PrefixMismatch.parse("keep")


def test_what_a_killed_writer_left_unfinished_goes_though_nothing_is_an_orphan(
    tmp_path: Path,
) -> None:
    sql_catalog = pytest.importorskip("pyiceberg.catalog.sql")
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": tmp_path.as_uri()}
    catalog = sql_catalog.SqlCatalog("test", **properties)
    catalog.create_namespace("db")
    rows = pa.table({"id": pa.array(range(3), pa.int64())})
    catalog.create_table("db.t", rows.schema).append(rows)
    opened = tideline.open_iceberg(
        "db.t", catalog="test", catalog_properties={"type": "sql", **properties}
    )
    old, young = (tmp_path / f"db/t/metadata/.tmp-{name}" for name in ("old", "young"))
    for file in (old, young):
        file.write_bytes(b"half a manif")
    os.utime(old, (1_000, 1_000))
    opened.run("remove_orphan_files", options={DRY_RUN: "true"})
    assert old.exists()
    run = opened.run("remove_orphan_files")
    assert run.not_due is not None
    assert not old.exists()
    assert young.exists()
    assert opened.count() == 3
