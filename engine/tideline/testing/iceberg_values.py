"""Iceberg's metadata as values, with only what a test cares about filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tideline.iceberg.manifest.manifest_entry import (
    DataFile,
    EntryStatus,
    FileContent,
    ManifestEntry,
)
from tideline.iceberg.metadata.partition_spec import PartitionSpec
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.sort_order import SortOrder
from tideline.iceberg.metadata.table_metadata import TableMetadata


def table_metadata(
    schema: Schema,
    *specs: PartitionSpec,
    properties: Mapping[str, str] | None = None,
    format_version: int = 2,
) -> TableMetadata:
    """A table without snapshots; the last spec is the current one."""
    return TableMetadata(
        format_version=format_version,
        table_uuid="00000000-0000-0000-0000-000000000001",
        location="memory://tests/table",
        last_sequence_number=0,
        last_updated_ms=0,
        last_column_id=schema.highest_field_id,
        schemas=(schema,),
        current_schema_id=schema.schema_id,
        partition_specs=specs,
        default_spec_id=specs[-1].spec_id,
        last_partition_id=max((f.field_id for s in specs for f in s.fields), default=999),
        sort_orders=(SortOrder(),),
        default_sort_order_id=0,
        properties=dict(properties or {}),
        snapshots=(),
        current_snapshot_id=None,
        refs={},
        snapshot_log=(),
        metadata_log=(),
        next_row_id=0 if format_version >= 3 else None,
    )


def data_file(path: str, **given: Any) -> DataFile:
    """A parquet file of one row and one byte in the only partition of spec 0."""
    values: dict[str, Any] = {
        "content": FileContent.DATA,
        "file_format": "PARQUET",
        "spec_id": 0,
        "partition": (),
        "record_count": 1,
        "file_size_bytes": 1,
    }
    return DataFile(file_path=path, **{**values, **given})


def live_entry(file: DataFile, sequence_number: int) -> ManifestEntry:
    """The file as a manifest lists it once it is committed."""
    return ManifestEntry(EntryStatus.ADDED, 1, sequence_number, sequence_number, file)
