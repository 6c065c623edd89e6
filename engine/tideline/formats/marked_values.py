"""Texts and bytes that stand for a value that was not available when a row was written."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types


def marked_values(column: pa.Array | pa.ChunkedArray, marker: str) -> npt.NDArray[np.bool_]:
    """The rows of a column that have the marker in place of a value."""
    if not _is_text(column.type):
        return np.zeros(len(column), dtype=np.bool_)
    wanted = pa.scalar(marker.encode(), pa.binary()).cast(column.type)
    found: npt.NDArray[np.bool_] = pc.fill_null(pc.equal(column, wanted), False).to_numpy(
        zero_copy_only=False
    )
    return found


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )
