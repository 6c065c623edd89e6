"""What reading and writing a table's rows needs to know of its metadata; picklable."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tideline.iceberg.data.name_mapping import MappedField, parse_name_mapping
from tideline.iceberg.data.row_lineage import fields_with_lineage, has_lineage
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.field_type import NestedField
from tideline.iceberg.metadata.partition_spec import PartitionSpec
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.table_metadata import TableMetadata


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
            has_lineage(metadata),
        )

    @property
    def fields(self) -> tuple[NestedField, ...]:
        """The columns that are read and written: the schema's, and those of row lineage."""
        return fields_with_lineage(self.schema.fields, has_lineage=self.has_lineage)

    def projected(self, names: Container[str], *, has_lineage: bool = False) -> RowLayout:
        """The layout of these columns alone; deletes may still compare the others."""
        fields = tuple(field for field in self.schema.fields if field.name in names)
        return replace(
            self,
            schema=replace(self.schema, fields=fields),
            older_schemas=(self.schema, *self.older_schemas),
            has_lineage=has_lineage,
        )

    def constants(self, file: DataFile) -> dict[int, Any]:
        """The values that the file's partition gives its identity columns, by column id."""
        spec = self.specs[file.spec_id]
        return {
            field.source_id: value
            for field, value in zip(spec.fields, file.partition, strict=True)
            if field.transform.name == "identity"
        }
