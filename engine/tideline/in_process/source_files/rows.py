"""Parquet files of others as one table in memory, as `tideline.spark.source_files` reads them.

1. Footers say whether the files are read here (`source_schema`), and about how large they get.
2. Rows are read file by file in the order of arrival; times in nanoseconds are rounded down.
3. Files of other columns are brought to one schema, by name, as a write would evolve a table's.

What Hudi puts into an export is left out. Whatever is wrong with a file is for Spark to check: it
finds out which files and which rows are at fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from tideline.errors import InvalidDataError, ObjectNotFoundError
from tideline.formats.arrow_stream import arrow_stream
from tideline.hudi.table.column_type import stored_schema
from tideline.hudi.table.meta_column import is_meta_column
from tideline.hudi.table.missing_columns import MissingColumns
from tideline.hudi.table.schema import evolve
from tideline.hudi.table.stored_value import cast_array
from tideline.hudi.write.batch_rules import ARRIVAL
from tideline.in_process.source_files.schema import (
    SourceFooter,
    memory_bytes,
    source_schema,
    why_spark,
)
from tideline.storage.object_store import ObjectStore

_READERS = 8
_NANOS_PER_MICRO = 1_000


def read_source_rows(
    store: ObjectStore, paths: Sequence[str], size_bytes_max: int
) -> pa.Table | str:
    """The rows of the files, in the order of the paths, or why they are for Spark, in words.

    Raises InvalidDataError for files whose columns clash, StorageUnavailableError.
    """
    try:
        footers = _read_footers(store, paths)
        for footer in footers:
            reason = why_spark(footer)
            if reason is not None:
                return f"{footer.path}: {reason}"
        if sum(memory_bytes(footer.metadata) for footer in footers) > size_bytes_max:
            return _too_large(size_bytes_max)
        parts: list[pa.Table] = []
        for footer in footers:
            rows = _read_file(store, footer, size_bytes_max - sum(part.nbytes for part in parts))
            if rows is None:
                return _too_large(size_bytes_max)
            parts.append(rows)
    except (pa.ArrowException, ObjectNotFoundError, UnicodeDecodeError) as error:
        return " ".join(str(error).split())
    except OSError as error:
        if error.errno is not None:
            raise
        return " ".join(str(error).split())
    return _united(parts)


def _too_large(size_bytes_max: int) -> str:
    return f"the rows take more than {size_bytes_max >> 20} MiB of memory"


def _read_footers(store: ObjectStore, paths: Sequence[str]) -> list[SourceFooter]:
    if len(paths) == 1:
        return [_read_footer(store, paths[0])]
    with ThreadPoolExecutor(min(_READERS, len(paths))) as pool:
        return list(pool.map(lambda path: _read_footer(store, path), paths))


def _read_footer(store: ObjectStore, path: str) -> SourceFooter:
    with store.open_reader(path) as stream, _open(stream) as file:
        return SourceFooter(path, file.metadata, file.schema_arrow)


def _open(stream: BinaryIO, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
    return pq.ParquetFile(
        arrow_stream(stream),
        metadata=metadata,
        coerce_int96_timestamp_unit="us",
        pre_buffer=True,
    )


def _read_file(store: ObjectStore, footer: SourceFooter, size_bytes_max: int) -> pa.Table | None:
    """The file's rows, None where they are more than that."""
    schema = source_schema(footer)
    assert schema is not None, "why_spark names a file without one"
    wanted = [item for item in schema if item.name != ARRIVAL and not is_meta_column(item.name)]
    names, parts, size_bytes = [item.name for item in wanted], [], 0
    with store.open_reader(footer.path) as stream, _open(stream, footer.metadata) as file:
        for index in range(footer.metadata.num_row_groups):
            read = file.read_row_group(index, columns=names)
            columns = [_as_spark_has_it(read.column(item.name), item.type) for item in wanted]
            parts.append(pa.table(columns, schema=pa.schema(wanted)))
            size_bytes += parts[-1].nbytes
            if size_bytes > size_bytes_max:
                return None
    return pa.concat_tables(parts) if parts else pa.schema(wanted).empty_table()


def _as_spark_has_it(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if types.is_timestamp(column.type) and column.type.unit == "ns":
        chunks = [_rounded_down(chunk, wanted) for chunk in column.chunks]
        return pa.chunked_array(chunks, wanted)
    return _cast(column, wanted)


def _rounded_down(chunk: pa.Array, wanted: pa.DataType) -> pa.Array:
    nanos = pc.fill_null(chunk.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    absent = chunk.is_null().to_numpy(zero_copy_only=False)
    return pa.array(np.floor_divide(nanos, _NANOS_PER_MICRO), pa.int64(), mask=absent).cast(wanted)


def _cast(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if column.type == wanted:
        return column
    return pa.chunked_array([cast_array(chunk, wanted) for chunk in column.chunks], wanted)


def _united(parts: Sequence[pa.Table]) -> pa.Table:
    """All rows in one schema; columns that some lack are null there."""
    distinct = list(dict.fromkeys(part.schema for part in parts))
    if len(distinct) == 1:
        return pa.concat_tables(parts)
    merged: pa.Schema | None = None
    for schema in distinct:
        merged = evolve(merged or stored_schema(schema), schema, missing=MissingColumns.NULL).schema
    assert merged is not None
    return pa.concat_tables([_in_schema(part, merged) for part in parts])


def _in_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    pairs = zip(rows.schema.names, rows.columns, strict=True)
    named = {name.lower(): column for name, column in pairs}
    columns = []
    for item in schema:
        column = named.get(item.name.lower())
        try:
            columns.append(
                pa.nulls(rows.num_rows, item.type) if column is None else _cast(column, item.type)
            )
        except pa.ArrowInvalid as error:
            message = f"column {item.name} has a value that does not fit {item.type}"
            raise InvalidDataError(message) from error
    return pa.table(columns, schema=pa.schema([item.with_nullable(True) for item in schema]))
