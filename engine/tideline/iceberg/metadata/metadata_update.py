"""What a commit changes, and what it takes for granted: values that a file-system table applies
itself and that a REST or SQL catalog is asked to apply (spec of the REST catalog, `TableUpdate`
and `TableRequirement`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from tideline.errors import CorruptTableError
from tideline.iceberg.metadata.partition_spec import PartitionSpec
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.snapshot import MAIN, Snapshot, SnapshotRef
from tideline.iceberg.metadata.sort_order import SortOrder
from tideline.iceberg.metadata.table_metadata import (
    LINEAGE_SINCE,
    SnapshotLogEntry,
    TableMetadata,
)

LAST_ADDED = -1
"""The schema, spec or sort order that the same commit adds, whatever id a catalog gives it."""


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
    """Make a listed schema the table's, by default the one that was added last."""

    schema_id: int = LAST_ADDED


@dataclass(frozen=True, slots=True)
class AddPartitionSpec:
    """List a partition spec; new files are still filed by the default one."""

    spec: PartitionSpec


@dataclass(frozen=True, slots=True)
class SetDefaultSpec:
    """File new files by a listed spec, by default the one that was added last."""

    spec_id: int = LAST_ADDED


@dataclass(frozen=True, slots=True)
class AddSortOrder:
    """List a sort order."""

    order: SortOrder


@dataclass(frozen=True, slots=True)
class SetDefaultSortOrder:
    """Sort new files by a listed order, by default the one that was added last."""

    order_id: int = LAST_ADDED


@dataclass(frozen=True, slots=True)
class SetProperties:
    """Set table properties."""

    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RemoveProperties:
    """Forget table properties."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UpgradeFormatVersion:
    """Continue in a later version of the format."""

    format_version: int


MetadataUpdate: TypeAlias = (
    AddSnapshot
    | SetSnapshotRef
    | RemoveSnapshotRef
    | RemoveSnapshots
    | RemovePartitionSpecs
    | RemoveSchemas
    | AddSchema
    | SetCurrentSchema
    | AddPartitionSpec
    | SetDefaultSpec
    | AddSortOrder
    | SetDefaultSortOrder
    | SetProperties
    | RemoveProperties
    | UpgradeFormatVersion
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


@dataclass(frozen=True, slots=True)
class AssertCurrentSchemaId:
    """The table's schema is still this one."""

    schema_id: int


@dataclass(frozen=True, slots=True)
class AssertLastAssignedFieldId:
    """No column has been given an id since."""

    field_id: int


@dataclass(frozen=True, slots=True)
class AssertDefaultSpecId:
    """New files are still filed by this spec."""

    spec_id: int


@dataclass(frozen=True, slots=True)
class AssertLastAssignedPartitionId:
    """No partition field has been given an id since."""

    field_id: int


@dataclass(frozen=True, slots=True)
class AssertDefaultSortOrderId:
    """New files are still sorted by this order."""

    order_id: int


_IdRequirement: TypeAlias = (
    AssertCurrentSchemaId
    | AssertLastAssignedFieldId
    | AssertDefaultSpecId
    | AssertLastAssignedPartitionId
    | AssertDefaultSortOrderId
)
Requirement: TypeAlias = AssertTableUuid | AssertRefSnapshotId | _IdRequirement


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
            case _:
                what, expected, now = _id_required(metadata, requirement)
                if now != expected:
                    return f"{what} is {now} by now, and was {expected}"
    return None


def _id_required(metadata: TableMetadata, requirement: _IdRequirement) -> tuple[str, int, int]:
    match requirement:
        case AssertCurrentSchemaId(wanted):
            return "the current schema", wanted, metadata.current_schema_id
        case AssertLastAssignedFieldId(wanted):
            return "the last id of a column", wanted, metadata.last_column_id
        case AssertDefaultSpecId(wanted):
            return "the default partition spec", wanted, metadata.default_spec_id
        case AssertLastAssignedPartitionId(wanted):
            return "the last id of a partition field", wanted, metadata.last_partition_id
        case AssertDefaultSortOrderId(wanted):
            return "the default sort order", wanted, metadata.default_sort_order_id


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
                chosen = changed.schemas[-1].schema_id if schema_id == LAST_ADDED else schema_id
                changed.schema(chosen)
                changed = replace(changed, current_schema_id=chosen)
            case AddPartitionSpec() | SetDefaultSpec():
                changed = _with_partitioning(changed, update)
            case AddSortOrder() | SetDefaultSortOrder():
                changed = _with_sorting(changed, update)
            case SetProperties(properties):
                changed = replace(changed, properties={**changed.properties, **properties})
            case RemoveProperties(names):
                left = {n: text for n, text in changed.properties.items() if n not in names}
                changed = replace(changed, properties=left)
            case UpgradeFormatVersion(version):
                changed = _upgraded(changed, version)
    return changed


def _with_partitioning(
    metadata: TableMetadata, update: AddPartitionSpec | SetDefaultSpec
) -> TableMetadata:
    specs = metadata.partition_specs
    if isinstance(update, SetDefaultSpec):
        chosen = specs[-1].spec_id if update.spec_id == LAST_ADDED else update.spec_id
        return replace(metadata, default_spec_id=metadata.spec(chosen).spec_id)
    if any(spec.spec_id == update.spec.spec_id for spec in specs):
        message = "the table already lists a partition spec of this id"
        raise CorruptTableError(message, table=metadata.location, value=update.spec.spec_id)
    last = max((field.field_id for field in update.spec.fields), default=0)
    last_partition_id = max(metadata.last_partition_id, last)
    return replace(
        metadata, partition_specs=(*specs, update.spec), last_partition_id=last_partition_id
    )


def _with_sorting(
    metadata: TableMetadata, update: AddSortOrder | SetDefaultSortOrder
) -> TableMetadata:
    orders = metadata.sort_orders
    if isinstance(update, SetDefaultSortOrder):
        chosen = orders[-1].order_id if update.order_id == LAST_ADDED else update.order_id
        changed = replace(metadata, default_sort_order_id=chosen)
        changed.sort_order()
        return changed
    if any(order.order_id == update.order.order_id for order in orders):
        message = "the table already lists a sort order of this id"
        raise CorruptTableError(message, table=metadata.location, value=update.order.order_id)
    return replace(metadata, sort_orders=(*orders, update.order))


def _upgraded(metadata: TableMetadata, version: int) -> TableMetadata:
    if version < metadata.format_version:
        message = "a table does not go back to an earlier format version"
        raise CorruptTableError(message, table=metadata.location, value=version)
    # What version 1 says a second time.
    old = {"schema", "partition-spec"} if version > 1 else set()
    document = {name: item for name, item in metadata.document.items() if name not in old}
    next_row_id = metadata.next_row_id
    if version >= LINEAGE_SINCE and next_row_id is None:
        next_row_id = 0
    return replace(metadata, format_version=version, next_row_id=next_row_id, document=document)


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
