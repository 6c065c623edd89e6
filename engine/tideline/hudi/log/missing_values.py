"""Which values of a column are missing, in the sense of partial updates."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.formats.column_encoding import decoded
from tideline.hudi.log.entry_fold import Flags
from tideline.hudi.table.partial_updates import PartialUpdateMode, PartialUpdates


def missing_values(column: pa.Array, partial: PartialUpdates) -> Flags:
    """The rows whose value is taken from another row of the key, where there is one."""
    column = decoded(column)
    if partial.mode is PartialUpdateMode.IGNORE_DEFAULTS:
        flags: Flags = column.is_null().to_numpy(zero_copy_only=False)
        return flags
    if partial.unavailable is None or not _is_text(column.type):
        return np.zeros(len(column), dtype=np.bool_)
    marker = pa.scalar(partial.unavailable.encode(), pa.binary()).cast(column.type)
    unavailable: Flags = pc.fill_null(pc.equal(column, marker), False).to_numpy(False)
    return unavailable


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )
