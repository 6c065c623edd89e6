"""Appends an update of some columns as whole rows, so that every reader of logs understands it.

1. The merged slice is read, once, as a query would see it.
2. An incoming row that wins over the stored row of its key takes over the columns it must not
   change; one that loses is dropped, as in a rewrite of the base file.
3. Rows whose key is not stored, and deletes, are appended as they come.

Log records that hold just some columns exist, but only the newest of the readers know them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tideline.hudi.file_group.append_handle import append_log_files
from tideline.hudi.file_group.file_slice_merge import FileSliceMerge, SliceContext
from tideline.hudi.file_group.handle_context import IS_DELETE, RECORD_KEY, HandleContext
from tideline.hudi.file_group.merge_handle import kept_columns
from tideline.hudi.file_group.record_merge import IncomingRows, find_matches, incoming_wins
from tideline.hudi.keys.virtual_key import virtual_keys
from tideline.hudi.placement.targets import AppendTarget
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.parquet.column_encoding import decoded
from tideline.storage.object_store import ObjectStore


def append_to_slice(
    ctx: HandleContext, store: ObjectStore, target: AppendTarget, incoming: pa.Table
) -> tuple[WriteStat, ...]:
    """Append `incoming` to the target's logs, completed first if it updates some columns only.

    Raises as `append_log_files`, and CorruptTableError for a stored file that cannot be read.
    """
    if ctx.partial_update_columns is not None:
        assert target.reading is not None, "partial updates read what is stored"
        incoming = complete_rows(ctx, store, target, target.reading, incoming)
    return append_log_files(ctx, store, target.file_slice, target.slice_instant, incoming)


def complete_rows(
    ctx: HandleContext,
    store: ObjectStore,
    target: AppendTarget,
    reading: SliceContext,
    incoming: pa.Table,
) -> pa.Table:
    """`incoming` with the stored values of the columns that it must not change.

    Rows that lose against the stored row of their key are left out.
    """
    rows = IncomingRows.of(ctx.stored_schema, incoming).last_of_each_key()
    kept = kept_columns(ctx)
    is_left = np.ones(len(rows), dtype=np.bool_)
    completed: list[pa.Table] = []
    for batch in FileSliceMerge(store, target.file_slice, reading).batches():
        matches = find_matches(_keys(ctx, batch), rows.keys)
        is_left[matches.incoming] = False
        won = matches.where(incoming_wins(ctx, batch, rows.rows, matches))
        deletes = rows.deletes[won.incoming]
        is_left[won.incoming[deletes]] = True
        updates = won.where(~deletes)
        winners = rows.take(updates.incoming)
        stored = pa.array(updates.stored)
        columns = [
            decoded(batch.column(name)).take(stored) if name in kept else column
            for name, column in zip(winners.rows.schema.names, winners.rows.columns, strict=True)
        ]
        completed.append(_table(winners.keys, columns, ctx.stored_schema, winners.deletes))
    left = rows.take(np.flatnonzero(is_left))
    completed.append(_table(left.keys, left.rows.columns, ctx.stored_schema, left.deletes))
    return pa.concat_tables(completed)


def _keys(ctx: HandleContext, batch: pa.RecordBatch) -> pa.Array:
    if ctx.populate_meta_fields:
        return decoded(batch.column(RECORD_KEY))
    return virtual_keys(batch, ctx.virtual_key_fields, qualified=ctx.virtual_keys_qualified)


def _table(
    keys: pa.Array, columns: list[pa.Array], schema: pa.Schema, deletes: np.ndarray
) -> pa.Table:
    arrays = [keys, *columns, pa.array(deletes)]
    return pa.Table.from_arrays(arrays, names=[RECORD_KEY, *schema.names, IS_DELETE])
