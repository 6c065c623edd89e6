"""A new Iceberg table: its first metadata, and the folder that begins with it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from tideline.iceberg.metadata.partition_spec import FIRST_PARTITION_FIELD_ID, PartitionSpec
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.sort_order import SortOrder
from tideline.iceberg.metadata.table_metadata import (
    FORMAT_VERSION,
    LINEAGE_SINCE,
    TableMetadata,
)
from tideline.iceberg.table.file_system_table import FOLDER
from tideline.storage.object_store import ObjectStore

UNSORTED = SortOrder()


def new_metadata(
    location: str,
    schema: Schema,
    specs: tuple[PartitionSpec, ...],
    properties: Mapping[str, str],
    *,
    now_ms: int,
    format_version: int = FORMAT_VERSION,
    order: SortOrder = UNSORTED,
) -> TableMetadata:
    """The metadata of an empty table; the last of `specs` is the one for new files."""
    orders = (UNSORTED,) if order == UNSORTED else (UNSORTED, order)
    field_ids = [field.field_id for spec in specs for field in spec.fields]
    return TableMetadata(
        format_version=format_version,
        table_uuid=str(uuid.uuid4()),
        location=location.rstrip("/"),
        last_sequence_number=0,
        last_updated_ms=now_ms,
        last_column_id=schema.highest_field_id,
        schemas=(schema,),
        current_schema_id=schema.schema_id,
        partition_specs=specs,
        default_spec_id=specs[-1].spec_id,
        last_partition_id=max(field_ids, default=FIRST_PARTITION_FIELD_ID - 1),
        sort_orders=orders,
        default_sort_order_id=order.order_id,
        properties=dict(properties),
        snapshots=(),
        current_snapshot_id=None,
        refs={},
        snapshot_log=(),
        metadata_log=(),
        next_row_id=0 if format_version >= LINEAGE_SINCE else None,
    )


def create_in_folder(store: ObjectStore, metadata: TableMetadata) -> None:
    """Make the folder of `store` this table, unless another process makes it one first.

    Raises StorageUnavailableError; then it is unknown whether there is one.
    """
    store.put_if_absent(f"{FOLDER}/v1.metadata.json", metadata.to_bytes(), token=uuid.uuid4().hex)
