"""What the statistics of a Parquet row group say of its rows, as conditions that they meet.

Only columns whose order in the file is that of their values in Arrow count: whole numbers, booleans
and text. Floating point numbers may be NaN, which statistics leave out; dates and times may be
those of another calendar, or mislabelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

_TRUSTED = (types.is_int32, types.is_int64, types.is_boolean, types.is_string)


def trusted_columns(metadata: pq.FileMetaData, wanted: pa.Schema) -> dict[int, str]:
    """The columns, by their number in the file, that it stores under the names and in the types
    that are wanted of them."""
    stored = metadata.schema.to_arrow_schema()
    found = {}
    for name, number in whole_columns(metadata).items():
        if stored.get_field_index(name) < 0 or wanted.get_field_index(name) < 0:
            continue
        data_type = wanted.field(name).type
        if stored.field(name).type == data_type and has_trusted_statistics(data_type):
            found[number] = name
    return found


def whole_columns(metadata: pq.FileMetaData) -> dict[str, int]:
    """The numbers of columns that are no parts of others, by name; a name may look like the path
    of a part."""
    columns = ((metadata.schema.column(number), number) for number in range(metadata.num_columns))
    return {column.name: number for column, number in columns if column.path == column.name}


def has_trusted_statistics(data_type: pa.DataType) -> bool:
    """Whether the order of values of a type is certain to be that of its statistics."""
    return any(known(data_type) for known in _TRUSTED)


def known_of(
    row_group: pq.RowGroupMetaData, columns: Iterable[tuple[int, str]]
) -> Iterator[list[pc.Expression]]:
    """What the statistics of these columns say of all rows of the row group, as
    `RowFilter.may_hold` takes it."""
    for number, name in columns:
        known = _known(row_group.column(number), pc.field(name))
        if known is not None:
            yield known


def _known(chunk: pq.ColumnChunkMetaData, column: pc.Expression) -> list[pc.Expression] | None:
    statistics = chunk.statistics
    if statistics is None or not statistics.has_null_count:
        return None
    if statistics.null_count == chunk.num_values:
        return [column.is_null()]
    if not statistics.has_min_max:
        # Writers leave long text out.
        return None
    try:
        within = (column >= statistics.min) & (column <= statistics.max)
    except UnicodeDecodeError:
        # Text that was cut within a character.
        return None
    return [within, column.is_null()] if statistics.null_count else [within]
