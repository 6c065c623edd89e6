"""Records that a later tombstone of the same range deletes.

A tombstone has no ordering values. Among the rows of one write the highest ordering value stays, so
it would lose to every record of its key that is in the same commit, and win where that is in an
earlier one. What it deletes is left out here: a commit then has what several would leave.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tideline.formats.row_codes import row_codes
from tideline.hudi.write.batch_rules import ARRIVAL, DELETED_FLAG


def without_deleted(rows: pa.Table, key: Sequence[str], ordering: Sequence[str]) -> pa.Table:
    """The rows that no later delete without ordering values names. They have the columns of the
    key, ARRIVAL and DELETED_FLAG."""
    deletes = _flags(rows.column(DELETED_FLAG))
    for name in ordering:
        if name in rows.schema.names:
            deletes &= _flags(pc.is_null(rows.column(name)))
    names = [name for name in key if name in rows.schema.names]
    if not deletes.any() or len(names) < len(key):
        return rows
    codes = row_codes(rows.select(names).columns, rows.num_rows)
    arrival = rows.column(ARRIVAL).to_numpy()
    last = np.full(int(codes.max()) + 1, -1, np.int64)
    np.maximum.at(last, codes[deletes], arrival[deletes])
    kept = arrival >= last[codes]
    return rows if kept.all() else rows.filter(pa.array(kept))


def _flags(column: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.fill_null(column, False).to_numpy()
    return found.copy()
