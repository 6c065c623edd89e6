"""Rows in an order of arrival, as a table has them that had none before."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tideline.hudi.write.batch_rules import ARRIVAL, DELETED_FLAG


def last_rows(rows: pa.Table, record_key: Sequence[str]) -> pa.Table:
    """The last row of each key, unless it deletes."""
    if ARRIVAL not in rows.column_names:
        return rows
    last = rows.group_by(list(record_key)).aggregate([(ARRIVAL, "max")]).column(f"{ARRIVAL}_max")
    found = rows.filter(pc.is_in(rows.column(ARRIVAL), value_set=last.combine_chunks()))
    if DELETED_FLAG in found.column_names:
        found = found.filter(pc.invert(found.column(DELETED_FLAG))).drop_columns([DELETED_FLAG])
    return found
