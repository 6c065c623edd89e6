"""Which record keys file slices gain and lose from one time to another.

1. Of a slice whose base file is the same, the headers of its logs say whether any can delete. Where
   none can, rows only replace others: a write appends no key that its base file lacks, but to the
   buckets of a bucket index.
2. Where rows were appended and no other differs, their keys are read.
3. Else the keys of both slices are read, logs merged in, and compared in Arrow. A delete that loses
   by event time deletes nothing, which is why slices are merged.

Several pairs are compared at once. Of one only the keys that differ are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tideline.hudi.file_group.deleted_keys import may_delete
from tideline.hudi.file_group.file_slice_merge import FileSliceMerge, SliceContext
from tideline.hudi.file_group.stored_keys import open_base_file
from tideline.hudi.index.bucket import small_bucket_number
from tideline.hudi.metadata_table.partition import KeyChange, SlicePair
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import RECORD_KEY
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.committed import CommittedInstants
from tideline.machine import processors


def key_changes(
    table: HoodieTable,
    before: ActiveTimeline,
    after: ActiveTimeline,
    schema: pa.Schema,
    pairs: Sequence[SlicePair],
    value_column: str | None = None,
) -> list[KeyChange]:
    """What each pair of slices gains and loses between two timelines; the table has its meta
    columns, and `schema` is that of its rows. With a column the keys are those of a secondary index
    of it.

    Raises CorruptTableError, UnsupportedTableError as a read of the slices.
    """
    reading = SliceContext.of(table, before, schema)
    shown_after = replace(reading, committed=CommittedInstants.of(after))
    comparison = _Comparison(table, reading, shown_after, value_column)
    if len(pairs) < 2:
        return [comparison.of(pair) for pair in pairs]
    with ThreadPoolExecutor(min(processors(), len(pairs))) as pool:
        return list(pool.map(comparison.of, pairs))


def index_texts(rows: pa.RecordBatch) -> pa.Array:
    """Record keys, or where there is a column of values the keys of a secondary index."""
    keys = rows.column(0).cast(pa.string())
    if rows.num_columns == 1:
        return keys
    values = pc.fill_null(_escaped(rows.column(1).cast(pa.string())), "\0")
    return pc.binary_join_element_wise(values, _escaped(keys), "$")


@dataclass(frozen=True, slots=True)
class _Comparison:
    table: HoodieTable
    before: SliceContext
    after: SliceContext
    value_column: str | None

    def of(self, pair: SlicePair) -> KeyChange:
        old, new, appended = pair.before, pair.after, pair.appended_rows
        if self.value_column is None and self._only_replaces(old, new):
            return KeyChange()
        if self.value_column is None and appended is not None and new is not None:
            return KeyChange(added=self._last_keys(new, appended))
        there, now = self._keys(old, self.before), self._keys(new, self.after)
        return KeyChange(added=_without(now, there), removed=_without(there, now))

    def _only_replaces(self, old: FileSlice | None, new: FileSlice | None) -> bool:
        if old is None or new is None or old.base_file is None or old.base_file != new.base_file:
            return False
        if small_bucket_number(new.file_id) is not None:
            return False
        selected = FileSliceMerge(self.table.store, new, self.after, []).select_blocks()
        return not may_delete(selected, self.after)

    def _last_keys(self, file_slice: FileSlice, count: int) -> pa.Array:
        """The keys of so many rows at the end of a base file."""
        assert file_slice.base_file is not None, "rows are appended to base files"
        with open_base_file(self.table.store, file_slice.base_file) as file:
            groups, rows = [], 0
            for number in reversed(range(file.num_row_groups)):
                if rows >= count:
                    break
                groups.append(number)
                rows += file.metadata.row_group(number).num_rows
            keys = file.read_row_groups(groups[::-1], columns=[RECORD_KEY]).column(0)
        last = keys.slice(len(keys) - count).cast(pa.string()).combine_chunks()
        return last.drop_null()

    def _keys(self, file_slice: FileSlice | None, reading: SliceContext) -> pa.Array:
        if file_slice is None:
            return pa.array([], pa.string())
        columns = [RECORD_KEY, *filter(None, [self.value_column])]
        merge = FileSliceMerge(self.table.store, file_slice, reading, columns)
        batches = [index_texts(rows) for rows in merge.batches()]
        return pa.concat_arrays(batches) if batches else pa.array([], pa.string())


def _escaped(texts: pa.Array) -> pa.Array:
    for sign in ("\\", "$", "\0"):
        texts = pc.replace_substring(texts, pattern=sign, replacement=f"\\{sign}")
    return texts


def _without(keys: pa.Array, others: pa.Array) -> pa.Array:
    """The keys that are not among others; rows without a key have none."""
    left = keys if not len(others) else keys.filter(pc.invert(pc.is_in(keys, value_set=others)))
    return left.drop_null()
