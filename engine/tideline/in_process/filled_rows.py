"""Rows that fill each other up and do not meet in a bucket: those of one key in a batch, and a row
that a global index finds in another partition with the stored row.

Which partition such a row belongs to is known once it is filled up, for its partition column may be
among what it lacks. `tideline.spark.write.folded_rows` does the same on Spark.
Source: Hudi's HoodieIndexUtils.mergeIncomingWithExistingRecord.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.hudi.file_group.file_slice_merge import SliceContext, read_file_slice
from tideline.hudi.file_group.handle_context import IS_DELETE, RECORD_KEY
from tideline.hudi.file_group.row_fold import RowFold
from tideline.hudi.keys.key_generator import KeyGenerator
from tideline.hudi.keys.row_keys import partition_paths, record_keys
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.meta_column import PARTITION_PATH
from tideline.hudi.write.work_parts import TaskNumbers
from tideline.in_process.prepared_rows import Positions, PreparedRows
from tideline.parquet.column_encoding import decoded
from tideline.storage.object_store import ObjectStore

_KEY = "_tideline_key"


@dataclass(frozen=True, slots=True)
class ReadStoredRows:
    """Reads the merged rows of one slice whose keys are wanted, keys in front, in these types."""

    file_slice: FileSlice
    reading: SliceContext
    keys: KeyGenerator
    wanted: pa.Array
    columns: pa.Schema

    def run(self, store: ObjectStore, task: TaskNumbers) -> Sequence[pa.RecordBatch]:  # noqa: ARG002
        """The rows, batch by batch."""
        has_key = self.reading.populate_meta_fields
        names = [*([RECORD_KEY] if has_key else []), *self.columns.names]
        found = []
        for rows in read_file_slice(store, self.file_slice, self.reading, names):
            stored = rows.select(self.columns.names)
            keys = decoded(rows.column(RECORD_KEY)) if has_key else record_keys(stored, self.keys)
            keys = keys.cast(pa.string())
            chosen = pc.is_in(keys, value_set=self.wanted)
            columns = [
                decoded(column).filter(chosen).cast(item.type)
                for item, column in zip(self.columns, stored.columns, strict=True)
            ]
            arrays = [keys.filter(chosen), *columns]
            found.append(pa.RecordBatch.from_arrays(arrays, [_KEY, *self.columns.names]))
        return found


def filled_from_stored(
    batch: PreparedRows, stored: Sequence[pa.RecordBatch], fold: RowFold, keys: KeyGenerator
) -> PreparedRows:
    """The batch, its rows merged with the stored rows of their keys.

    A row that is left gets the partition path of its own columns, a delete keeps the one it came
    with. A batch has each key once.
    """
    older = pa.Table.from_batches(stored).combine_chunks().to_batches()
    if not older:
        return batch
    (rows,) = older
    met = pc.is_in(batch.keys, value_set=rows.column(_KEY)).to_numpy(zero_copy_only=False)
    stored_rows = PreparedRows(
        batch.schema,
        rows.select(batch.rows.schema.names).cast(batch.rows.schema),
        rows.column(_KEY),
        pa.repeat(pa.scalar(""), len(rows)).dictionary_encode(),
    )
    both = stored_rows.followed_by(batch.take(np.flatnonzero(met)))
    codes = both.keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    merged = folded(both, fold, codes)
    paths = partition_paths(merged.rows, keys).dictionary_decode()
    if merged.deletes is not None:
        own = merged.partitions.dictionary_decode()
        paths = pc.if_else(pa.array(merged.deletes), own, paths)
    moved = replace(merged, partitions=paths.dictionary_encode())
    return batch.take(np.flatnonzero(~met)).followed_by(moved)


def folded(batch: PreparedRows, fold: RowFold, codes: Positions) -> PreparedRows:
    """Rows of equal codes as one, with the key and the partition of the winner."""
    order = np.argsort(codes, kind="stable")
    arranged = batch.take(order)
    deletes = np.zeros(len(batch), np.bool_) if arranged.deletes is None else arranged.deletes
    known = {
        RECORD_KEY: pa.array(codes[order]),
        IS_DELETE: pa.array(deletes),
        _KEY: arranged.keys,
        PARTITION_PATH: arranged.partitions.dictionary_decode(),
    }
    columns, names = (
        [*known.values(), *arranged.rows.columns],
        [*known, *arranged.rows.schema.names],
    )
    rows = pa.RecordBatch.from_arrays(columns, names)
    merged = pa.concat_batches(list(fold.fold_sorted([rows])))
    flags = merged.column(IS_DELETE).to_numpy(zero_copy_only=False)
    return PreparedRows(
        batch.schema,
        merged.select(arranged.rows.schema.names),
        merged.column(_KEY),
        merged.column(PARTITION_PATH).dictionary_encode(),
        None if batch.deletes is None else flags,
    )
