"""What reading and writing a table's rows needs to know of its metadata; picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tideline.iceberg.data.name_mapping import MappedField, parse_name_mapping
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.field_type import NestedField, Primitive
from tideline.iceberg.metadata.partition_spec import PartitionSpec
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.table_metadata import TableMetadata

ROW_ID = NestedField(2147483540, "_row_id", Primitive("long"))
LAST_UPDATED = NestedField(2147483539, "_last_updated_sequence_number", Primitive("long"))
LINEAGE_FIELDS = (ROW_ID, LAST_UPDATED)
"""Where a row came from (version 3): rewritten files carry both along."""

_LINEAGE_SINCE_VERSION = 3


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The columns of a table, and how older files and delete files are to be understood."""

    schema: Schema
    older_schemas: tuple[Schema, ...]
    """Newest first; they know columns that were dropped since."""
    specs: Mapping[int, PartitionSpec]
    mapping: tuple[MappedField, ...] | None
    has_lineage: bool

    @classmethod
    def of(cls, metadata: TableMetadata) -> RowLayout:
        """The layout of the current schema."""
        mapping = metadata.name_mapping()
        current = metadata.schema()
        return cls(
            current,
            tuple(schema for schema in reversed(metadata.schemas) if schema != current),
            {spec.spec_id: spec for spec in metadata.partition_specs},
            None if mapping is None else parse_name_mapping(mapping),
            metadata.format_version >= _LINEAGE_SINCE_VERSION,
        )

    @property
    def fields(self) -> tuple[NestedField, ...]:
        """The columns that are read and written: the schema's, and those of row lineage."""
        return self.schema.fields + (LINEAGE_FIELDS if self.has_lineage else ())

    def constants(self, file: DataFile) -> dict[int, Any]:
        """The values that the file's partition gives its identity columns, by column id."""
        spec = self.specs[file.spec_id]
        return {
            field.source_id: value
            for field, value in zip(spec.fields, file.partition, strict=True)
            if field.transform.name == "identity"
        }
