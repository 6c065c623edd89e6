"""What an `IcebergModel` holds and what its metadata leads to, for tests of maintenance."""

from __future__ import annotations

from dataclasses import replace

from tideline.iceberg.manifest.manifest_reading import entries_of, manifests_of
from tideline.iceberg.metadata.metadata_update import SetSnapshotRef, apply_updates
from tideline.iceberg.metadata.snapshot import MAIN, SnapshotRef
from tideline.iceberg.services.reachable_file import statistics_files
from tideline.iceberg.table.file_system_table import HINT_PATH
from tideline.iceberg.table.table_operations import Committed
from tideline.storage.object_store import ObjectStore
from tideline.testing.iceberg_model import IcebergModel
from tideline.testing.iceberg_model_files import ModelFiles


def stored(model: IcebergModel) -> set[str]:
    """Every object, by its path below the table."""
    return {info.path for info in model.location.open().list()}


def referenced(model: IcebergModel) -> set[str]:
    """Every object that the table's metadata leads to, by its path below the table."""
    operations = model.operations()
    loaded = operations.load()
    metadata = loaded.metadata
    used = {loaded.metadata_location, f"{metadata.location}/{HINT_PATH}"}
    used.update(entry.metadata_file for entry in metadata.metadata_log)
    used.update(file.location for file in statistics_files(metadata))
    for snapshot in metadata.snapshots:
        used.add(snapshot.manifest_list or "")
        for manifest in manifests_of(operations.io, snapshot):
            used.add(manifest.path)
            live = entries_of(operations.io, manifest, live_only=True)
            used.update(entry.data_file.file_path for entry in live)
    return {location.removeprefix(f"{metadata.location}/") for location in used}


def rows_by_snapshot(model: IcebergModel) -> dict[int, list[int]]:
    """What a reader of each listed snapshot sees."""
    operations = model.operations()
    metadata = operations.load().metadata
    rows = {}
    for snapshot in metadata.snapshots:
        tag = SetSnapshotRef("read", SnapshotRef(snapshot.snapshot_id, "tag"))
        tagged = apply_updates(metadata, [tag], now_ms=metadata.last_updated_ms)
        files = ModelFiles.of(operations.io, tagged, "read")
        rows[snapshot.snapshot_id] = sorted(
            row for entry in files.data() for row in files.visible_rows(entry)
        )
    return rows


def set_ref(
    model: IcebergModel, name: str, ref: SnapshotRef, store: ObjectStore | None = None
) -> None:
    """Create or move a branch or tag."""
    operations = model.operations(store)
    outcome = operations.commit(operations.load(), (), (SetSnapshotRef(name, ref),))
    assert isinstance(outcome, Committed)


def roll_back(model: IcebergModel, snapshot_id: int) -> None:
    """Move `main` to an earlier snapshot."""
    set_ref(model, MAIN, replace(model.metadata().refs[MAIN], snapshot_id=snapshot_id))


def empty_and_create_anew(model: IcebergModel) -> None:
    """Another table in the same folder, its files the only ones."""
    store = model.location.open()
    for info in list(store.list()):
        store.delete(info.path)
    other = IcebergModel.create()
    first = other.location.open().get("metadata/v1.metadata.json")
    place = other.location.uri.encode(), model.location.uri.encode()
    store.put("metadata/v1.metadata.json", first.replace(*place))
