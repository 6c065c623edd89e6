"""New values for columns of rows, given as values or as expressions over each row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tideline.errors import ConfigError


def with_changes(rows: pa.Table, changes: Mapping[str, Any]) -> pa.Table:
    """The rows with other values in some columns: a value for all of them, or an expression of
    pyarrow over the columns as they were. Raises ConfigError for what is no value of a column."""
    computed = dict(changes)
    for name, value in changes.items():
        if not isinstance(value, pc.Expression):
            try:
                computed[name] = pc.scalar(_scalar(value, rows.schema.field(name).type))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise ConfigError(f"no value for this column: {error}", value=name) from error
    columns = {name: computed.get(name, pc.field(name)) for name in rows.column_names}
    try:
        found = ds.dataset(rows).to_table(columns=columns)
        # Arrow casts no null struct of required fields, not even to its own type.
        cast = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(found.columns, rows.schema, strict=True)
        ]
        return pa.Table.from_arrays(cast, schema=rows.schema)
    except pa.ArrowException as error:
        raise ConfigError(f"the new values cannot be computed: {error}") from error


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """A value as one of this type. Arrow takes no null list or map of its own for one."""
    is_null = isinstance(value, pa.Scalar) and not value.is_valid
    return pa.scalar(None if is_null else value, kind)
