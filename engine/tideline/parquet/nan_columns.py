"""Which columns of a data file may have bounds in its statistics, for NaN's sake.

Arrow leaves NaN out of them; Spark and Java take it for the greatest number and rule a row group
out by its maximum. Columns within others have none: nobody looks for NaN in them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.parquet.column_encoding import leaf_columns


def bounded_leaves(schema: pa.Schema) -> Iterator[str]:
    """Paths of the leaf columns that statistics may be written of."""
    for field in schema:
        for path, leaf in leaf_columns(pa.schema([field])):
            if not (types.is_nested(field.type) and types.is_floating(leaf)):
                yield path


def leaves_with_nan(table: pa.Table) -> Iterator[int]:
    """Numbers of the leaf columns among these that hold NaN."""
    number = 0
    for field, column in zip(table.schema, table.columns, strict=True):
        if types.is_floating(field.type) and pc.any(pc.is_nan(column)).as_py():
            yield number
        number += sum(1 for _ in leaf_columns(pa.schema([field])))
