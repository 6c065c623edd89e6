"""One bucket of a write: its rows to the handle that its target calls for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from tideline.hudi.file_group.create_handle import create_base_files
from tideline.hudi.file_group.dedupe import keep_last_of_key
from tideline.hudi.file_group.handle_context import IS_DELETE, RECORD_KEY, STORED_ROW, HandleContext
from tideline.hudi.file_group.merge_handle import merge_base_file
from tideline.hudi.file_group.row_fold import RowFold
from tideline.hudi.placement.targets import AppendTarget, CreateTarget, Target
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.write.partial_append import append_to_slice
from tideline.storage.object_store import ObjectStore


def write_bucket(
    context: HandleContext,
    store: ObjectStore,
    target: Target,
    rows: Iterable[pa.RecordBatch],
    *,
    drops_duplicates: bool,
    key: str = RECORD_KEY,
) -> tuple[WriteStat, ...]:
    """Write the rows of one bucket; `key` is the column that has their record keys.

    Where duplicates are dropped the rows are sorted by (key, ordering, arrival), or by (key,
    arrival) where rows of one key fill each other up. Only rows for a stored file group are held.
    """
    shaped = (
        handle_columns(context, batch, key)
        for batch in (one_per_key(context, rows, key) if drops_duplicates else rows)
    )
    if isinstance(target, CreateTarget):
        return create_base_files(context, store, target.partition, target.file_id_prefix, shaped)
    incoming = pa.Table.from_batches(list(shaped))
    if isinstance(target, AppendTarget):
        return append_to_slice(context, store, target, incoming)
    return merge_base_file(context, store, target.base_file, incoming)


def one_per_key(
    context: HandleContext, rows: Iterable[pa.RecordBatch], key: str = RECORD_KEY
) -> Iterator[pa.RecordBatch]:
    """The row that is left of each key, of rows sorted as for `write_bucket`."""
    fold = RowFold.of(context, key)
    return keep_last_of_key(rows, key) if fold is None else fold.fold_sorted(rows)


def handle_columns(
    context: HandleContext, batch: pa.RecordBatch, key: str = RECORD_KEY
) -> pa.RecordBatch:
    """Just the columns a handle takes, in the types of the target schema.

    `key` is the column to take as the record key.
    """
    names = [key, *context.schema.names]
    types = [pa.string(), *context.schema.types]
    if IS_DELETE in batch.schema.names:
        names.append(IS_DELETE)
        types.append(pa.bool_())
    if STORED_ROW in batch.schema.names:
        names.append(STORED_ROW)
        types.append(pa.int64())
    columns = []
    for name, kind in zip(names, types, strict=True):
        column = batch.column(name)
        columns.append(column if column.type == kind else column.cast(kind))
    return pa.record_batch(columns, names=[RECORD_KEY, *names[1:]])
