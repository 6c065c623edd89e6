"""The columns of row lineage (format version 3): where a row came from, when it last changed."""

from __future__ import annotations

from tideline.iceberg.metadata.field_type import NestedField, Primitive
from tideline.iceberg.metadata.table_metadata import LINEAGE_SINCE, TableMetadata

ROW_ID = NestedField(2147483540, "_row_id", Primitive("long"))
LAST_UPDATED = NestedField(2147483539, "_last_updated_sequence_number", Primitive("long"))
LINEAGE_FIELDS = (ROW_ID, LAST_UPDATED)
"""Rewritten files carry both along."""


def has_lineage(metadata: TableMetadata) -> bool:
    """Whether the rows of a table have a lineage."""
    return metadata.format_version >= LINEAGE_SINCE


def fields_with_lineage(
    fields: tuple[NestedField, ...], *, has_lineage: bool
) -> tuple[NestedField, ...]:
    """The columns of new data files of a table with these columns."""
    return fields + (LINEAGE_FIELDS if has_lineage else ())
