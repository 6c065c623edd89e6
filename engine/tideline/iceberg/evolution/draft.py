"""A table as changes are to leave it, and what that takes of its catalog.

Changes edit a draft, one after another, each on what those before it left. The difference between
the draft and the table it began as is one commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tideline.iceberg.metadata.field_type import NestedField
from tideline.iceberg.metadata.metadata_update import (
    AddPartitionSpec,
    AddSchema,
    AddSortOrder,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUuid,
    MetadataUpdate,
    RemoveProperties,
    RemoveSnapshotRef,
    Requirement,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetProperties,
    SetSnapshotRef,
    UpgradeFormatVersion,
)
from tideline.iceberg.metadata.partition_spec import PartitionField, PartitionSpec
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.snapshot import SnapshotRef
from tideline.iceberg.metadata.sort_order import SortField, SortOrder
from tideline.iceberg.metadata.table_metadata import TableMetadata

DEFAULTS_SINCE = 3
"""The version that has default values."""


@dataclass(frozen=True)
class Draft:
    """`base` with what changes made of it so far; `now_ms` is when."""

    base: TableMetadata
    now_ms: int
    fields: tuple[NestedField, ...]
    identifier_ids: tuple[int, ...]
    last_column_id: int
    partition_fields: tuple[PartitionField, ...]
    last_partition_id: int
    sort_fields: tuple[SortField, ...]
    properties: Mapping[str, str]
    refs: Mapping[str, SnapshotRef]
    format_version: int

    @classmethod
    def of(cls, metadata: TableMetadata, *, now_ms: int) -> Draft:
        """The table as it is."""
        schema = metadata.schema()
        return cls(
            metadata,
            now_ms,
            schema.fields,
            schema.identifier_field_ids,
            metadata.last_column_id,
            metadata.spec().fields,
            metadata.last_partition_id,
            metadata.sort_order().fields,
            metadata.properties,
            metadata.refs,
            metadata.format_version,
        )

    @property
    def table(self) -> str:
        """The table's location, for messages."""
        return self.base.location

    @cached_property
    def schema(self) -> Schema:
        """The columns so far."""
        return Schema(self.base.current_schema_id, self.fields, self.identifier_ids)

    def updates(self) -> tuple[MetadataUpdate, ...]:
        """What the catalog is to change; nothing when the table is as wanted already."""
        return (*self._version(), *self._schema(), *self._spec(), *self._order(),
                *self._properties(), *self._refs())  # fmt: skip

    def requirements(self) -> tuple[Requirement, ...]:
        """What the updates take for granted of the table."""
        base = self.base
        found: list[Requirement] = [AssertTableUuid(base.table_uuid)]
        if any((*self._schema(), *self._spec(), *self._order())):
            # Columns, partitions and order refer to each other.
            found += [
                AssertCurrentSchemaId(base.current_schema_id),
                AssertDefaultSpecId(base.default_spec_id),
                AssertDefaultSortOrderId(base.default_sort_order_id),
            ]
        if self.last_column_id != base.last_column_id:
            found.append(AssertLastAssignedFieldId(base.last_column_id))
        if self.last_partition_id != base.last_partition_id:
            found.append(AssertLastAssignedPartitionId(base.last_partition_id))
        for name in self._changed_refs():
            ref = base.refs.get(name)
            found.append(AssertRefSnapshotId(name, None if ref is None else ref.snapshot_id))
        return tuple(found)

    def _version(self) -> Iterator[MetadataUpdate]:
        if self.format_version != self.base.format_version:
            yield UpgradeFormatVersion(self.format_version)

    def _schema(self) -> Iterator[MetadataUpdate]:
        if self.schema.has_columns_of(self.base.schema()):
            return
        known = [schema for schema in self.base.schemas if schema.has_columns_of(self.schema)]
        if known:
            yield SetCurrentSchema(known[0].schema_id)
            return
        number = 1 + max(schema.schema_id for schema in self.base.schemas)
        yield AddSchema(replace(self.schema, schema_id=number))
        yield SetCurrentSchema()

    def _spec(self) -> Iterator[MetadataUpdate]:
        fields = self.partition_fields
        if fields == self.base.spec().fields:
            return
        known = [spec for spec in self.base.partition_specs if _files(spec.fields, fields)]
        if known:
            yield SetDefaultSpec(known[0].spec_id)
            return
        number = 1 + max(spec.spec_id for spec in self.base.partition_specs)
        yield AddPartitionSpec(PartitionSpec(number, fields))
        yield SetDefaultSpec()

    def _order(self) -> Iterator[MetadataUpdate]:
        fields, orders = self.sort_fields, self.base.sort_orders
        if fields == self.base.sort_order().fields:
            return
        known = [order for order in orders if order.fields == fields]
        if known:
            yield SetDefaultSortOrder(known[0].order_id)
            return
        # 0 is the order without fields, whether it is listed or not.
        number = 1 + max(order.order_id for order in orders) if fields else 0
        yield AddSortOrder(SortOrder(number, fields))
        yield SetDefaultSortOrder()

    def _properties(self) -> Iterator[MetadataUpdate]:
        before = self.base.properties
        changed = {n: text for n, text in self.properties.items() if before.get(n) != text}
        if changed:
            yield SetProperties(changed)
        gone = tuple(name for name in before if name not in self.properties)
        if gone:
            yield RemoveProperties(gone)

    def _refs(self) -> Iterator[MetadataUpdate]:
        for name in self._changed_refs():
            ref = self.refs.get(name)
            yield RemoveSnapshotRef(name) if ref is None else SetSnapshotRef(name, ref)

    def _changed_refs(self) -> list[str]:
        names = [*self.base.refs, *(name for name in self.refs if name not in self.base.refs)]
        return [name for name in names if self.refs.get(name) != self.base.refs.get(name)]


def _files(known: tuple[PartitionField, ...], wanted: tuple[PartitionField, ...]) -> bool:
    """Whether one spec files rows as another; ids may differ, as Iceberg compares specs."""
    return [(f.source_id, f.name, f.transform) for f in known] == [
        (f.source_id, f.name, f.transform) for f in wanted
    ]
