"""Which values of a row are missing in the sense of partial updates, and taking them from another.

Source: Hudi's PartialUpdateHandler. What it takes from an older row where that lacks it as well, a
null or the marker, is the same as what was there.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.formats.marked_values import marked_values
from tideline.hudi.log.entry_fold import Flags
from tideline.hudi.table.partial_updates import PartialUpdateMode, PartialUpdates
from tideline.parquet.column_encoding import decoded


def missing_values(column: pa.Array, partial: PartialUpdates) -> Flags:
    """The rows whose value is taken from another row of the key, where there is one."""
    column = decoded(column)
    if partial.mode is PartialUpdateMode.IGNORE_DEFAULTS:
        flags: Flags = column.is_null().to_numpy(zero_copy_only=False)
        return flags
    if partial.unavailable is None:
        return np.zeros(len(column), dtype=np.bool_)
    return marked_values(column, partial.unavailable)


def filled_up(
    rows: pa.RecordBatch,
    others: pa.RecordBatch,
    partial: PartialUpdates,
    present: Mapping[str, Flags] | None = None,
) -> pa.RecordBatch:
    """`rows` with values of `others`, row by row, where they lack them.

    `others` has the columns of `rows`, and more perhaps. With `present` only values that it flags
    are taken.
    """
    columns = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        column = decoded(column)
        missing = missing_values(column, partial)
        if present is not None:
            missing &= present[name]
        if missing.any():
            column = pc.if_else(pa.array(missing), decoded(others.column(name)), column)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, rows.schema.names)


def gains(
    rows: pa.RecordBatch,
    others: pa.RecordBatch,
    partial: PartialUpdates,
    present: Mapping[str, Flags] | None = None,
) -> Flags:
    """Which of `rows` lack a value that the row of `others` next to them has."""
    gaining = np.zeros(rows.num_rows, dtype=np.bool_)
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        missing = missing_values(column, partial)
        if missing.any():
            has = ~missing_values(others.column(name), partial)
            gaining |= missing & (has if present is None else present[name])
    return gaining
