"""Columns of type variant in a write: rows that are copied keep theirs as it is stored.

A variant is two runs of bytes, metadata and value, which are not looked into. Given rows have null
there, or variants as Spark has them. Those that are shredded, and those within structs, lists and
maps, are refused by name.
"""

from __future__ import annotations

from dataclasses import replace

from tideline.iceberg.metadata.field_type import VARIANT, CarriedVariant, NestedField
from tideline.iceberg.metadata.table_metadata import TableMetadata


def with_carried_variants(metadata: TableMetadata) -> TableMetadata:
    """The table, where the types of columns say that variants are carried along."""
    schemas = tuple(
        replace(schema, fields=tuple(map(_carried, schema.fields))) for schema in metadata.schemas
    )
    return metadata if schemas == metadata.schemas else replace(metadata, schemas=schemas)


def _carried(field: NestedField) -> NestedField:
    return replace(field, type=CarriedVariant()) if field.type == VARIANT else field
