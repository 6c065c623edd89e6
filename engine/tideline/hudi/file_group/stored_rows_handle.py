"""Writes rows that are stored already to new base files: what compaction and clustering do.

1. A marker names the file before it exists; the partition gets its metadata file.
2. Rows stream through with their commit time, sequence number, key and partition; only the file
   name column is new.
3. The footer's bloom filter and key range are made of the keys that pass.

Source: Hudi `HoodieWriteMergeHandle` of a compaction, `HoodieRowCreateHandle` of a clustering.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from tideline.hudi.file_group.base_file_writer import BaseFileWriter
from tideline.hudi.file_group.handle_context import HandleContext
from tideline.hudi.file_group.marked_file import open_marked_file
from tideline.hudi.file_group.meta_columns import RECORD_KEY
from tideline.hudi.table.markers import MarkerKind
from tideline.hudi.table.partition_metadata import write_partition_metadata
from tideline.hudi.timeline.column_range import ColumnRanges
from tideline.parquet.column_encoding import decoded
from tideline.storage.object_store import ObjectStore

_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class RewrittenFile:
    """A new base file; `path` is relative to the table."""

    file_id: str
    path: str
    rows: int
    size_bytes: int
    column_ranges: ColumnRanges | None = None


def rewrite_rows(
    ctx: HandleContext,
    store: ObjectStore,
    partition: str,
    file_id: str,
    batches: Iterable[pa.RecordBatch],
    *,
    kind: MarkerKind = MarkerKind.CREATE,
) -> RewrittenFile:
    """Write all rows to one base file of a file group, even if there are none.

    Batches have the meta columns but the file name, then the user columns in the context's order.
    Raises InvalidDataError for rows that do not fit the schema, StorageUnavailableError.
    """
    with _new_file(ctx, store, partition, file_id, kind) as writer:
        for batch in batches:
            _write(ctx, writer, batch)
    return _rewritten(file_id, writer)


def spread_rows(
    ctx: HandleContext,
    store: ObjectStore,
    partition: str,
    file_id_prefix: str,
    batches: Iterable[pa.RecordBatch],
) -> tuple[RewrittenFile, ...]:
    """Write rows to new file groups `<prefix>-0`, `-1`, …, another one at the maximum file size.

    No row, no file. Otherwise as `rewrite_rows`.
    """
    bytes_max = ctx.parquet.file_size_bytes_max
    row_groups = min(ctx.parquet.row_group_bytes_max, bytes_max)
    ctx = replace(ctx, parquet=replace(ctx.parquet, row_group_bytes_max=row_groups))
    parts = _parts(batches)
    files: list[RewrittenFile] = []
    batch = next(parts, None)
    while batch is not None:
        file_id = f"{file_id_prefix}-{len(files)}"
        with _new_file(ctx, store, partition, file_id, MarkerKind.CREATE) as writer:
            while batch is not None and (not writer.rows or writer.estimated_bytes < bytes_max):
                _write(ctx, writer, batch)
                batch = next(parts, None)
        files.append(_rewritten(file_id, writer))
    return tuple(files)


def _rewritten(file_id: str, writer: BaseFileWriter) -> RewrittenFile:
    return RewrittenFile(file_id, writer.path, writer.rows, writer.size_bytes, writer.column_ranges)


@contextmanager
def _new_file(
    ctx: HandleContext, store: ObjectStore, partition: str, file_id: str, kind: MarkerKind
) -> Iterator[BaseFileWriter]:
    with open_marked_file(ctx, store, partition, file_id, kind) as writer:
        write_partition_metadata(store, partition, ctx.instant)
        yield writer


def _write(ctx: HandleContext, writer: BaseFileWriter, batch: pa.RecordBatch) -> None:
    if batch.num_rows:
        writer.write(batch)
        if ctx.populate_meta_fields:
            writer.add_keys(decoded(batch.column(RECORD_KEY)))


def _parts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in parts so small that a file's size is noticed in time."""
    for batch in batches:
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            yield batch.slice(start, _BATCH_ROWS)
