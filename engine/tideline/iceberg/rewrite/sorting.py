"""The order that a rewrite's options ask for, bound to the table's columns."""

from __future__ import annotations

from pyarrow import types

from tideline.errors import ConfigError
from tideline.iceberg.data.arrow_schema import arrow_type
from tideline.iceberg.data.nested_column import ColumnPath
from tideline.iceberg.data.row_order import RowOrder
from tideline.iceberg.partition_spec import Transform
from tideline.iceberg.rewrite.options import RewriteOptions, RewriteStrategy
from tideline.iceberg.rewrite.sort_terms import SortTerm
from tideline.iceberg.schema import Schema
from tideline.iceberg.sort_order import SortField
from tideline.iceberg.table_metadata import TableMetadata


def chosen_order(options: RewriteOptions, metadata: TableMetadata) -> RowOrder | None:
    """None for bin-packing; the table's own order when sorting names no columns.

    Raises ConfigError for a column that is not there or has no order, and when neither the options
    nor the table have a sort order.
    """
    if options.strategy is RewriteStrategy.BINPACK:
        return None
    schema = metadata.schema()
    fields = tuple(_field(term, schema) for term in options.sort_terms)
    if not fields and options.strategy is RewriteStrategy.SORT:
        fields = metadata.sort_order().fields
    if not fields:
        raise ConfigError("Sorting needs a sort order: the table has none", table=metadata.location)
    return RowOrder(fields, is_curve=options.strategy is RewriteStrategy.ZORDER)


def _field(term: SortTerm, schema: Schema) -> SortField:
    found = schema.find(term.column) or schema.find(term.column, case_sensitive=False)
    if found is None or ColumnPath.find(schema.fields, found.field_id) is None:
        raise ConfigError("The sort order names a column the table has not", value=term.column)
    if types.is_nested(arrow_type(found.type)):
        raise ConfigError("Rows cannot be sorted by a struct, list or map", value=term.column)
    transform = Transform.parse(term.transform)
    if not transform.is_known:
        raise ConfigError("Unknown transform in the sort order", value=term.transform)
    return SortField(found.field_id, transform, term.is_descending, term.nulls_first)
