"""The five `_hoodie_*` columns of rows that a handle writes.

Columns with one value for a whole file are dictionary arrays of that value, which cost next to
nothing to make and to encode.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tideline.hudi.file_group.handle_context import HandleContext
from tideline.hudi.table.schema import META_COLUMNS
from tideline.hudi.timeline.instant_time import InstantTime

COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME = META_COLUMNS

_DIGITS_MAX = 10
_ZERO = ord("0")


def with_meta_columns(
    ctx: HandleContext,
    partition: str,
    keys: pa.Array,
    rows: pa.RecordBatch,
    row_numbers: npt.NDArray[np.int64],
) -> pa.RecordBatch:
    """`rows` as rows written now: all meta columns but the file name in front of them.

    `row_numbers` ascend; they are the rows' numbers in their file. Without meta columns in the
    table the rows are given back as they are.
    """
    if not ctx.populate_meta_fields:
        return rows
    columns = [
        constant_column(str(ctx.instant), len(keys)),
        commit_seqnos(ctx.instant, ctx.task_partition, row_numbers),
        keys,
        constant_column(partition, len(keys)),
    ]
    return pa.RecordBatch.from_arrays(
        [*columns, *rows.columns], [*META_COLUMNS[: len(columns)], *rows.schema.names]
    )


def constant_column(value: str, length: int) -> pa.DictionaryArray:
    """`value`, `length` times."""
    indices = pa.array(np.zeros(length, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([value], pa.string()))


def commit_seqnos(
    instant: InstantTime, task_partition: str, rows: npt.NDArray[np.int64]
) -> pa.Array:
    """`<instant>_<task partition>_<row>` for ascending row numbers of one file.

    Row numbers of equally many digits form one block of bytes, so no text is made row by row.
    """
    prefix = np.frombuffer(f"{instant}_{task_partition}_".encode(), dtype=np.uint8)
    numbers = rows.astype(np.uint32)
    powers = 10 ** np.arange(_DIGITS_MAX, dtype=np.uint64)
    bounds = [0, *np.searchsorted(numbers, powers[1:]).tolist(), len(numbers)]
    lengths = np.empty(len(numbers), dtype=np.int32)
    blocks = []
    for digits in range(1, _DIGITS_MAX + 1):
        start, end = bounds[digits - 1], bounds[digits]
        if start < end:
            blocks.append(_block(prefix, numbers[start:end], digits))
            lengths[start:end] = len(prefix) + digits
    offsets = np.zeros(len(numbers) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    text = np.concatenate(blocks) if blocks else np.empty(0, dtype=np.uint8)
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(text))


def _block(
    prefix: npt.NDArray[np.uint8], numbers: npt.NDArray[np.uint32], digits: int
) -> npt.NDArray[np.uint8]:
    """The bytes of `prefix` and a number of `digits` digits, for every number."""
    text = np.empty((len(numbers), len(prefix) + digits), dtype=np.uint8)
    text[:, : len(prefix)] = prefix
    rest = numbers
    for column in range(text.shape[1] - 1, len(prefix) - 1, -1):
        quotient = rest // 10
        text[:, column] = rest - quotient * 10 + _ZERO
        rest = quotient
    return text.reshape(-1)
