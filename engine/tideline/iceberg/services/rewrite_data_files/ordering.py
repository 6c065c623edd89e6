"""The order of rows that a rewrite asks for, in terms of the table's columns."""

from __future__ import annotations

from tideline.errors import ConfigError
from tideline.iceberg.data.nested_column import ColumnPath
from tideline.iceberg.data.row_order import RowOrder
from tideline.iceberg.metadata.field_type import parts_of
from tideline.iceberg.metadata.partition_spec import Transform
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.sort_order import SortField
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions, RewriteStrategy
from tideline.iceberg.services.rewrite_data_files.sort_terms import SortTerm


def row_order(options: RewriteOptions, metadata: TableMetadata) -> RowOrder | None:
    """None for a rewrite that leaves rows in the order they have.

    Raises ConfigError for a column that the table does not have, an unknown transform, and a sort
    without an order where the table has none either.
    """
    if options.strategy is RewriteStrategy.BINPACK:
        return None
    schema, place = metadata.schema(), metadata.location
    fields = tuple(sort_field(term, schema, table=place) for term in options.sort_terms)
    fields = fields or metadata.sort_order().fields
    if not fields:
        message = "the table has no sort order of its own: name the columns to sort by"
        raise ConfigError(message, table=metadata.location)
    return RowOrder(fields, is_curve=options.strategy is RewriteStrategy.ZORDER)


def sort_field(term: SortTerm, schema: Schema, *, table: str) -> SortField:
    """A term in the ids of a schema, that of `table`. Raises ConfigError as `row_order`."""
    column = schema.find(term.column) or schema.find(term.column, case_sensitive=False)
    if column is None:
        message = "the table has no such column to sort by"
        raise ConfigError(message, table=table, value=term.column)
    if ColumnPath.find(schema.fields, column.field_id) is None or parts_of(column.type):
        message = "rows cannot be sorted by a struct, a list, a map or what is in a list or map"
        raise ConfigError(message, table=table, value=term.column)
    transform = Transform.parse(term.transform)
    if not transform.is_known:
        message = "there is no such transform to sort by"
        raise ConfigError(message, table=table, value=term.transform)
    return SortField(column.field_id, transform, term.is_descending, term.nulls_first)
