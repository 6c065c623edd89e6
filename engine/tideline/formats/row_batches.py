"""Limits of reading: rows of a batch, which is sized by bytes, so that wide rows do not fill a
worker's memory; columns of a file; rows that are taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import index
from typing import SupportsIndex

import pyarrow as pa
from pyarrow import types

from tideline.bounded.read_limits import too_many_columns
from tideline.errors import ConfigError, UnsupportedTableError

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


def first_of(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The first rows, all of them for None; no batch is asked for once there are as many.

    Raises ConfigError for a limit that is no number of rows.
    """
    checked = checked_limit(limit)
    return iter(batches) if checked is None else _cut(batches, checked)


def checked_limit(limit: SupportsIndex | None) -> int | None:
    """The limit, of numpy's whole numbers too. Raises ConfigError for one that is no number of
    rows."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, SupportsIndex) or index(limit) < 0:
        raise ConfigError("a limit is a number of rows, 0 or more", value=limit)
    return index(limit)


def _cut(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    left = limit
    remaining = iter(batches)
    while left > 0:
        batch = next(remaining, None)
        if batch is None:
            return
        yield batch.slice(0, left)
        left -= batch.num_rows


def _leaves(data_type: pa.DataType) -> int:
    if not types.is_nested(data_type):
        return 1
    return sum(_leaves(data_type.field(index).type) for index in range(data_type.num_fields))
