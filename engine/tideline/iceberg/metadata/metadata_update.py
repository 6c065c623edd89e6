"""What a commit changes, and what it takes for granted: values that a file-system table applies
itself and that a REST or SQL catalog is asked to apply (spec of the REST catalog, `TableUpdate`
and `TableRequirement`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from tideline.errors import CorruptTableError
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.snapshot import MAIN, Snapshot, SnapshotRef
from tideline.iceberg.metadata.table_metadata import SnapshotLogEntry, TableMetadata


@dataclass(frozen=True, slots=True)
class AddSnapshot:
    """List a snapshot; no branch leads to it yet."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class SetSnapshotRef:
    """Point a branch or tag to a listed snapshot."""

    name: str
    ref: SnapshotRef


@dataclass(frozen=True, slots=True)
class RemoveSnapshotRef:
    """Forget a branch or tag."""

    name: str


@dataclass(frozen=True, slots=True)
class RemoveSnapshots:
    """List these snapshots no more."""

    snapshot_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RemovePartitionSpecs:
    """Forget specs that no manifest uses."""

    spec_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RemoveSchemas:
    """Forget schemas that no snapshot uses."""

    schema_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AddSchema:
    """List a schema; the table's columns are still those of the current one."""

    schema: Schema


@dataclass(frozen=True, slots=True)
class SetCurrentSchema:
    """Make a listed schema the table's."""

    schema_id: int


@dataclass(frozen=True, slots=True)
class SetProperties:
    """Set table properties."""

    properties: Mapping[str, str]


MetadataUpdate: TypeAlias = (
    AddSnapshot
    | SetSnapshotRef
    | RemoveSnapshotRef
    | RemoveSnapshots
    | RemovePartitionSpecs
    | RemoveSchemas
    | AddSchema
    | SetCurrentSchema
    | SetProperties
)


@dataclass(frozen=True, slots=True)
class AssertTableUuid:
    """It is still the same table."""

    table_uuid: str


@dataclass(frozen=True, slots=True)
class AssertRefSnapshotId:
    """A branch still leads to this snapshot; None: there is no such branch."""

    name: str
    snapshot_id: int | None


Requirement: TypeAlias = AssertTableUuid | AssertRefSnapshotId


def unmet(metadata: TableMetadata, requirements: Iterable[Requirement]) -> str | None:
    """Why a commit must not be applied to `metadata`, None when all requirements hold."""
    for requirement in requirements:
        match requirement:
            case AssertTableUuid(table_uuid):
                if table_uuid != metadata.table_uuid:
                    return f"this is another table: {metadata.table_uuid}, not {table_uuid}"
            case AssertRefSnapshotId(name, snapshot_id):
                ref = metadata.refs.get(name)
                found = None if ref is None else ref.snapshot_id
                if found != snapshot_id:
                    return f"branch {name} has moved from snapshot {snapshot_id} to {found}"
    return None


def apply_updates(
    metadata: TableMetadata, updates: Iterable[MetadataUpdate], *, now_ms: int
) -> TableMetadata:
    """The table after the updates; pure. Times never go back behind what is recorded."""
    now_ms = max(now_ms, metadata.last_updated_ms)
    changed = replace(metadata, last_updated_ms=now_ms)
    added: set[int] = set()
    for update in updates:
        match update:
            case AddSnapshot(snapshot):
                changed = _with_snapshot(changed, snapshot)
                added.add(snapshot.snapshot_id)
            case SetSnapshotRef(name, ref):
                changed = _with_ref(changed, name, ref, added, now_ms)
            case RemoveSnapshotRef(name):
                changed = _without_ref(changed, name)
            case RemoveSnapshots(snapshot_ids):
                changed = _without_snapshots(changed, frozenset(snapshot_ids))
            case RemovePartitionSpecs(spec_ids):
                kept_specs = tuple(s for s in changed.partition_specs if s.spec_id not in spec_ids)
                changed = replace(changed, partition_specs=kept_specs)
            case RemoveSchemas(schema_ids):
                kept = tuple(s for s in changed.schemas if s.schema_id not in schema_ids)
                changed = replace(changed, schemas=kept)
            case AddSchema(schema):
                changed = _with_schema(changed, schema)
            case SetCurrentSchema(schema_id):
                changed.schema(schema_id)
                changed = replace(changed, current_schema_id=schema_id)
            case SetProperties(properties):
                changed = replace(changed, properties={**changed.properties, **properties})
    return changed


def _with_schema(metadata: TableMetadata, schema: Schema) -> TableMetadata:
    if any(candidate.schema_id == schema.schema_id for candidate in metadata.schemas):
        message = "the table already lists a schema of this id"
        raise CorruptTableError(message, table=metadata.location, value=schema.schema_id)
    last_column_id = max(metadata.last_column_id, schema.highest_field_id)
    schemas = (*metadata.schemas, schema)
    return replace(metadata, schemas=schemas, last_column_id=last_column_id)


def _with_snapshot(metadata: TableMetadata, snapshot: Snapshot) -> TableMetadata:
    if metadata.snapshot(snapshot.snapshot_id) is not None:
        message = "the table already lists a snapshot of this id"
        raise CorruptTableError(message, table=metadata.location, value=snapshot.snapshot_id)
    next_row_id = metadata.next_row_id
    if next_row_id is not None:
        next_row_id += snapshot.added_rows or 0
    return replace(
        metadata,
        snapshots=(*metadata.snapshots, snapshot),
        last_sequence_number=max(metadata.last_sequence_number, snapshot.sequence_number),
        last_updated_ms=max(metadata.last_updated_ms, snapshot.timestamp_ms),
        next_row_id=next_row_id,
    )


def _with_ref(
    metadata: TableMetadata, name: str, ref: SnapshotRef, added: set[int], now_ms: int
) -> TableMetadata:
    snapshot = metadata.snapshot(ref.snapshot_id)
    if snapshot is None:
        message = f"{name} cannot lead to a snapshot that is not listed"
        raise CorruptTableError(message, table=metadata.location, value=ref.snapshot_id)
    changed = replace(metadata, refs={**metadata.refs, name: ref})
    if name != MAIN:
        return changed
    timestamp_ms = snapshot.timestamp_ms if ref.snapshot_id in added else now_ms
    entry = SnapshotLogEntry(ref.snapshot_id, timestamp_ms)
    return replace(
        changed,
        current_snapshot_id=ref.snapshot_id,
        snapshot_log=(*metadata.snapshot_log, entry),
    )


def _without_ref(metadata: TableMetadata, name: str) -> TableMetadata:
    refs = {other: ref for other, ref in metadata.refs.items() if other != name}
    current = None if name == MAIN else metadata.current_snapshot_id
    return replace(metadata, refs=refs, current_snapshot_id=current)


def _without_snapshots(metadata: TableMetadata, gone: frozenset[int]) -> TableMetadata:
    """Without the snapshots, their statistics, and the part of the log that is no longer complete
    (as Iceberg does: everything up to the newest entry of a removed snapshot)."""
    log: list[SnapshotLogEntry] = []
    for entry in metadata.snapshot_log:
        if entry.snapshot_id in gone:
            log.clear()
        else:
            log.append(entry)
    document = dict(metadata.document)
    for name in ("statistics", "partition-statistics"):
        if name in document:
            document[name] = [item for item in document[name] if item["snapshot-id"] not in gone]
    return replace(
        metadata,
        snapshots=tuple(
            snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in gone
        ),
        refs={n: ref for n, ref in metadata.refs.items() if ref.snapshot_id not in gone},
        snapshot_log=tuple(log),
        document=document,
    )
