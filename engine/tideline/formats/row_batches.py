"""Limits of reading a base file: rows of a batch, which is sized by bytes, so that wide rows do not
fill a worker's memory, and columns."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types

from tideline.errors import UnsupportedTableError
from tideline.read_limits import too_many_columns

_BATCH_BYTES = 32 * 1024 * 1024
_BATCH_ROWS_MIN = 64
_BATCH_ROWS_MAX = 262_144


def rows_of_batch(size_bytes: int, row_count: int) -> int:
    """Rows in one batch of a file or a part of one that has so many bytes and rows."""
    bytes_per_row = max(1, size_bytes // max(1, row_count))
    return min(max(_BATCH_BYTES // bytes_per_row, _BATCH_ROWS_MIN), _BATCH_ROWS_MAX)


def check_schema(schema: pa.Schema, *, path: object = None) -> None:
    """Raise UnsupportedTableError naming `path` for more columns, nested ones too, than we read."""
    problem = too_many_columns(sum(_leaves(item.type) for item in schema))
    if problem is not None:
        raise UnsupportedTableError(problem, path=path)


def _leaves(data_type: pa.DataType) -> int:
    if not types.is_nested(data_type):
        return 1
    return sum(_leaves(data_type.field(index).type) for index in range(data_type.num_fields))
