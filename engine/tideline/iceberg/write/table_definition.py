"""What a new Iceberg table is to be, and its first metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tideline.errors import ConfigError
from tideline.iceberg.metadata.partition_spec import (
    FIRST_PARTITION_FIELD_ID,
    PartitionField,
    PartitionSpec,
    Transform,
)
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.sort_order import SortField, SortOrder
from tideline.iceberg.metadata.table_metadata import (
    FORMAT_VERSIONS,
    LINEAGE_SINCE,
    TableMetadata,
)
from tideline.iceberg.metadata.table_property import why_not_set
from tideline.iceberg.services.rewrite_data_files.ordering import sort_field
from tideline.iceberg.services.rewrite_data_files.sort_terms import parse_sort_order
from tideline.iceberg.table.new_table import new_metadata
from tideline.iceberg.write.new_schema import new_schema
from tideline.iceberg.write.write_settings import WriteSettings


@dataclass(frozen=True, slots=True)
class IcebergDefinition:
    """`partition_by` and `sort_by` are terms such as `day(ts), bucket(16, id)` and
    `day, id DESC NULLS LAST`; the columns of `key` identify a row."""

    columns: pa.Schema
    partition_by: str = ""
    sort_by: str = ""
    key: Sequence[str] = ()
    format_version: int = 2
    properties: Mapping[str, str] = field(default_factory=dict)

    def metadata(self, location: str, *, now_ms: int) -> TableMetadata:
        """The metadata of the empty table. Raises ConfigError for what cannot be."""
        version = self.format_version
        if version not in FORMAT_VERSIONS:
            raise ConfigError("format_version is 1, 2 or 3", value=version)
        if not self.columns.names:
            raise ConfigError("a table has a column", table=location)
        for name, text in self.properties.items():
            if message := why_not_set(name):
                raise ConfigError(message, table=location, value=name)
            if not isinstance(text, str):
                raise ConfigError("a property is a name and a text", table=location, value=name)
        schema = new_schema(self.columns, self.key, has_nanoseconds=version >= LINEAGE_SINCE)
        made = new_metadata(
            location,
            schema,
            (_spec(self.partition_by, schema, location),),
            self.properties,
            now_ms=now_ms,
            format_version=version,
            order=_order(self.sort_by, schema, location),
        )
        # What a write would refuse is refused before there is a table.
        WriteSettings.of(made, {})
        return made


def _spec(text: str, schema: Schema, table: str) -> PartitionSpec:
    fields: list[PartitionField] = []
    for found in _terms(text, schema, table):
        if found != SortField(found.source_id, found.transform):
            raise ConfigError("partitions have no order", table=table, value=text)
        number = FIRST_PARTITION_FIELD_ID + len(fields)
        name = _name(schema, found)
        if any(other.name == name for other in fields):
            raise ConfigError("two partition fields would have one name", table=table, value=name)
        if found.transform.name != "identity" and schema.find(name) is not None:
            message = "a partition field would have the name of a column: rename the column"
            raise ConfigError(message, table=table, value=name)
        fields.append(PartitionField(found.source_id, number, name, found.transform))
    return PartitionSpec(0, tuple(fields))


def _order(text: str, schema: Schema, table: str) -> SortOrder:
    fields = _terms(text, schema, table)
    return SortOrder(1, fields) if fields else SortOrder()


def _terms(text: str, schema: Schema, table: str) -> tuple[SortField, ...]:
    is_curve, terms = parse_sort_order(text)
    if is_curve:
        raise ConfigError("a table is not kept in z-order: that is a rewrite's", value=text)
    found = tuple(sort_field(term, schema, table=table) for term in terms)
    for item in found:
        _check_source(item.transform, schema, item.source_id, table)
    return found


def _check_source(transform: Transform, schema: Schema, source_id: int, table: str) -> None:
    source = schema.field(source_id)
    assert source is not None, "a term's column is one of the schema's"
    if not transform.takes(source.type):
        message = f"{transform} is not taken of a column of type {source.type}"
        raise ConfigError(message, table=table, value=source.name)
    if transform.lacks_width:
        message = f"{transform.name} takes a number, as in {transform.name}(16, {source.name})"
        raise ConfigError(message, table=table, value=source.name)


def _name(schema: Schema, found: SortField) -> str:
    """As Iceberg's engines name partition fields."""
    column = schema.name_of(found.source_id) or ""
    transform = found.transform
    if transform.name == "identity":
        return column
    return f"{column}_{transform.short_name}"
