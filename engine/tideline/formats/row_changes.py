"""What became of rows, as tables of either format give it: names, kinds, pairs.

Names are those of Iceberg's changelog views and of Flink's row kinds.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
import pyarrow as pa

from tideline.errors import ConfigError

CHANGE_TYPE = "_change_type"
CHANGE_INSTANT = "_change_instant"


class ChangeType(Enum):
    """What became of a row; an update is two rows, one after another."""

    INSERT = "INSERT"
    UPDATE_BEFORE = "UPDATE_BEFORE"
    UPDATE_AFTER = "UPDATE_AFTER"
    DELETE = "DELETE"


def schema_of_changes(columns: pa.Schema, *, table: str) -> pa.Schema:
    """What changes of rows with these columns have. Raises ConfigError when a name is taken."""
    clash = {CHANGE_TYPE, CHANGE_INSTANT} & set(columns.names)
    if clash:
        raise ConfigError(
            "the table has a column with the name of one of a change",
            table=table,
            value=", ".join(sorted(clash)),
        )
    kinds = [pa.field(CHANGE_TYPE, pa.string(), False), pa.field(CHANGE_INSTANT, pa.string())]
    # Files older than a column have no values for it.
    return pa.schema([*kinds, *(field.with_nullable(True) for field in columns)])


def marked(rows: pa.Table, kind: ChangeType, instant: str, schema: pa.Schema) -> pa.Table:
    """Rows with what became of them, and when."""
    marks = [pa.repeat(text, rows.num_rows) for text in (kind.value, instant)]
    return pa.Table.from_arrays([*marks, *rows.columns], schema=schema)


def updates(before: pa.Table, after: pa.Table, instant: str, schema: pa.Schema) -> pa.Table:
    """What rows were, each followed by what it is."""
    both = pa.concat_tables(
        [
            marked(before, ChangeType.UPDATE_BEFORE, instant, schema),
            marked(after, ChangeType.UPDATE_AFTER, instant, schema),
        ]
    )
    count = after.num_rows
    order = np.arange(2 * count).reshape(2, count).T.reshape(-1)
    return both.take(pa.array(order))
