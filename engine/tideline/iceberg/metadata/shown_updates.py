"""Whether metadata shows that updates took place, for a commit whose answer was lost.

Snapshots are recognised by their ids, which are never reused; schemas, specs and sort orders by
what they say, for all that were ever current stay listed. Updates without such a trace are taken
for done when the table is as they would leave it, whatever process made it so.
"""

from __future__ import annotations

from collections.abc import Iterable

from tideline.iceberg.metadata.metadata_update import (
    AddPartitionSpec,
    AddSchema,
    AddSnapshot,
    AddSortOrder,
    MetadataUpdate,
    RemoveProperties,
    RemoveSnapshotRef,
    RemoveSnapshots,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetProperties,
    SetSnapshotRef,
    UpgradeFormatVersion,
)
from tideline.iceberg.metadata.table_metadata import TableMetadata

_SNAPSHOTS = (AddSnapshot, RemoveSnapshots)
_DEFINITIONS = (AddSchema, AddPartitionSpec, AddSortOrder)


def leaves_trace(updates: Iterable[MetadataUpdate]) -> bool:
    """Whether updates that took place can be seen whatever other writers did since."""
    return any(isinstance(update, _SNAPSHOTS + _DEFINITIONS) for update in updates)


def is_shown(metadata: TableMetadata, updates: Iterable[MetadataUpdate]) -> bool:
    """Whether the metadata holds the updates."""
    listed = tuple(updates)
    for kinds in (_SNAPSHOTS, _DEFINITIONS):
        found = [update for update in listed if isinstance(update, kinds)]
        if found:
            return all(_holds(metadata, update) for update in found)
    return bool(listed) and all(_holds(metadata, update) for update in listed)


def _holds(metadata: TableMetadata, update: MetadataUpdate) -> bool:
    match update:
        case AddSnapshot(snapshot):
            return metadata.snapshot(snapshot.snapshot_id) is not None
        case RemoveSnapshots(snapshot_ids):
            return all(metadata.snapshot(number) is None for number in snapshot_ids)
        case AddSchema(schema):
            return any(listed.has_columns_of(schema) for listed in metadata.schemas)
        case AddPartitionSpec(spec):
            return any(listed.fields == spec.fields for listed in metadata.partition_specs)
        case AddSortOrder(order):
            return any(listed.fields == order.fields for listed in metadata.sort_orders)
        case SetSnapshotRef(name, ref):
            return metadata.refs.get(name) == ref
        case RemoveSnapshotRef(name):
            return name not in metadata.refs
        case SetCurrentSchema(schema_id):
            return metadata.current_schema_id == schema_id
        case SetDefaultSpec(spec_id):
            return metadata.default_spec_id == spec_id
        case SetDefaultSortOrder(order_id):
            return metadata.default_sort_order_id == order_id
        case SetProperties(properties):
            return properties.items() <= metadata.properties.items()
        case RemoveProperties(names):
            return metadata.properties.keys().isdisjoint(names)
        case UpgradeFormatVersion(version):
            return metadata.format_version >= version
    return False
