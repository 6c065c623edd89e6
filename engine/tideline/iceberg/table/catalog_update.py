"""Updates, requirements and metadata in PyIceberg's terms. Needs the extra `iceberg`."""

from __future__ import annotations

import json
import uuid
from typing import Any

from pyiceberg.partitioning import PartitionSpec as CatalogSpec
from pyiceberg.schema import Schema as CatalogSchema
from pyiceberg.table import update as pyiceberg
from pyiceberg.table.metadata import TableMetadata as CatalogMetadata
from pyiceberg.table.snapshots import Snapshot as CatalogSnapshot
from pyiceberg.table.sorting import SortOrder as CatalogOrder
from pyiceberg.typedef import IcebergBaseModel

from tideline.iceberg.metadata.metadata_update import (
    AddPartitionSpec,
    AddSchema,
    AddSnapshot,
    AddSortOrder,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUuid,
    MetadataUpdate,
    RemovePartitionSpecs,
    RemoveProperties,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    Requirement,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetProperties,
    SetSnapshotRef,
    UpgradeFormatVersion,
)
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.strange_types import without_stand_ins


def metadata_document(metadata: CatalogMetadata) -> Any:
    """A table's metadata as JSON."""
    # PyIceberg's own method refuses to write version 3, which it knows and catalogs take.
    return without_stand_ins(json.loads(IcebergBaseModel.model_dump_json(metadata)))


def definition_of(metadata: TableMetadata) -> dict[str, Any]:
    """The arguments of a request for a new table that is as `metadata` says, at no location."""
    version = {"format-version": str(metadata.format_version)}
    return {
        "schema": CatalogSchema.model_validate(metadata.schema().json()),
        "partition_spec": CatalogSpec.model_validate(metadata.spec().json()),
        "sort_order": CatalogOrder.model_validate(metadata.sort_order().json()),
        "properties": {**metadata.properties, **version},
    }


def as_requirement(requirement: Requirement) -> Any:
    """What PyIceberg calls a requirement."""
    match requirement:
        case AssertTableUuid(table_uuid):
            return pyiceberg.AssertTableUUID(uuid=uuid.UUID(table_uuid))
        case AssertRefSnapshotId(name, snapshot_id):
            fields = {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": snapshot_id}
            return pyiceberg.AssertRefSnapshotId.model_validate(fields)
        case AssertCurrentSchemaId(number):
            return pyiceberg.AssertCurrentSchemaId.model_validate({"current-schema-id": number})
        case AssertLastAssignedFieldId(number):
            return pyiceberg.AssertLastAssignedFieldId.model_validate(
                {"last-assigned-field-id": number}
            )
        case AssertDefaultSpecId(number):
            return pyiceberg.AssertDefaultSpecId.model_validate({"default-spec-id": number})
        case AssertLastAssignedPartitionId(number):
            return pyiceberg.AssertLastAssignedPartitionId.model_validate(
                {"last-assigned-partition-id": number}
            )
        case AssertDefaultSortOrderId(number):
            return pyiceberg.AssertDefaultSortOrderId.model_validate(
                {"default-sort-order-id": number}
            )


def as_update(update: MetadataUpdate, format_version: int) -> Any:
    """What PyIceberg calls an update."""
    match update:
        case AddSnapshot(snapshot):
            listed = CatalogSnapshot.model_validate(snapshot.json(format_version))
            return pyiceberg.AddSnapshotUpdate(snapshot=listed)
        case SetSnapshotRef(name, ref):
            fields = {"ref-name": name, **ref.json()}
            return pyiceberg.SetSnapshotRefUpdate.model_validate(fields)
        case RemoveSnapshotRef(name):
            return pyiceberg.RemoveSnapshotRefUpdate.model_validate({"ref-name": name})
        case RemoveSnapshots(snapshot_ids):
            fields = {"snapshot-ids": list(snapshot_ids)}
            return pyiceberg.RemoveSnapshotsUpdate.model_validate(fields)
        case RemovePartitionSpecs(spec_ids):
            return pyiceberg.RemovePartitionSpecsUpdate.model_validate({"spec-ids": list(spec_ids)})
        case RemoveSchemas(schema_ids):
            return pyiceberg.RemoveSchemasUpdate.model_validate({"schema-ids": list(schema_ids)})
        case AddSchema(schema):
            return pyiceberg.AddSchemaUpdate.model_validate({"schema": schema.json()})
        case SetCurrentSchema(schema_id):
            return pyiceberg.SetCurrentSchemaUpdate.model_validate({"schema-id": schema_id})
        case SetProperties(properties):
            return pyiceberg.SetPropertiesUpdate(updates=dict(properties))
        case AddPartitionSpec(spec):
            return pyiceberg.AddPartitionSpecUpdate.model_validate({"spec": spec.json()})
        case SetDefaultSpec(spec_id):
            return pyiceberg.SetDefaultSpecUpdate.model_validate({"spec-id": spec_id})
        case AddSortOrder(order):
            return pyiceberg.AddSortOrderUpdate.model_validate({"sort-order": order.json()})
        case SetDefaultSortOrder(order_id):
            fields = {"sort-order-id": order_id}
            return pyiceberg.SetDefaultSortOrderUpdate.model_validate(fields)
        case RemoveProperties(names):
            return pyiceberg.RemovePropertiesUpdate(removals=list(names))
        case UpgradeFormatVersion(version):
            return pyiceberg.UpgradeFormatVersionUpdate.model_validate({"format-version": version})
