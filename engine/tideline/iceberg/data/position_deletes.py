"""Position delete files: pairs of a data file's path and a row number in it.

A file may cover many data files, and many files may cover one; each is read once and cut by path.
Writers may keep the rows that they delete next to their positions.

Source: Iceberg's specification, "Position Delete Files".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tideline.errors import CorruptTableError
from tideline.iceberg.data.deletion_vector import Positions
from tideline.iceberg.data.parquet_rows import DataSource
from tideline.iceberg.metadata.field_type import NestedField, Primitive, StructType

FILE_PATH = NestedField(2147483546, "file_path", Primitive("string"), True)
POSITION = NestedField(2147483545, "pos", Primitive("long"), True)
DELETE_FIELDS = (FILE_PATH, POSITION)
ROW_FIELD_ID = 2147483544

NO_POSITIONS: Positions = np.empty(0, np.int64)


def positions_by_path(batches: Iterable[pa.RecordBatch], *, path: str) -> Mapping[str, Positions]:
    """The row numbers of every data file a delete file names. Raises CorruptTableError."""
    found: dict[str, list[Any]] = {}
    for batch in batches:
        if batch.column(0).null_count or batch.column(1).null_count:
            raise CorruptTableError("a position delete file has nulls", path=path)
        encoded = batch.column(0).dictionary_encode()
        codes = encoded.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        positions = batch.column(1).to_numpy()[order]
        cuts = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1)).tolist()
        for number, name in enumerate(encoded.dictionary.to_pylist()):
            found.setdefault(name, []).append(positions[cuts[number] : cuts[number + 1]])
    return {name: merged(parts) for name, parts in found.items()}


def deleted_rows(source: DataSource, fields: Sequence[NestedField]) -> Iterator[pa.RecordBatch]:
    """These fields of the rows that a delete file keeps next to their positions, where it does.

    Raises as `DataSource.batches`.
    """
    row = NestedField(ROW_FIELD_ID, "row", StructType(tuple(fields)))
    for found in source.batches((row,)):
        kept = found.rows.column(0).drop_null()
        if len(kept):
            yield pa.RecordBatch.from_struct_array(kept)


def merged(parts: Iterable[Positions]) -> Positions:
    """All positions of several sets, ascending and distinct."""
    sets = list(parts)
    return np.unique(np.concatenate(sets)) if sets else NO_POSITIONS


def live_rows(deleted: Positions, first: int, count: int) -> Any | None:
    """Which of `count` rows from row `first` on are not deleted; None when all live."""
    low, high = np.searchsorted(deleted, [first, first + count]).tolist()
    if low == high:
        return None
    live = np.ones(count, dtype=np.bool_)
    live[deleted[low:high] - first] = False
    return live
