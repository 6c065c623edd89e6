"""Which record keys file slices gain and lose from one time to another.

1. Of a slice whose base file is the same, the headers of its logs say whether any can delete. Where
   none can, rows only replace others: a write appends no key that its base file lacks.
2. Else the keys of both slices are read, logs merged in, and compared in Arrow. A delete that loses
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
) -> list[KeyChange]:
    """What each pair of slices gains and loses between two timelines; the table has its meta
    columns, and `schema` is that of its rows.

    Raises CorruptTableError, UnsupportedTableError as a read of the slices.
    """
    reading = SliceContext.of(table, before, schema)
    comparison = _Comparison(
        table, reading, replace(reading, committed=CommittedInstants.of(after))
    )
    if len(pairs) < 2:
        return [comparison.of(pair) for pair in pairs]
    with ThreadPoolExecutor(min(processors(), len(pairs))) as pool:
        return list(pool.map(comparison.of, pairs))


@dataclass(frozen=True, slots=True)
class _Comparison:
    table: HoodieTable
    before: SliceContext
    after: SliceContext

    def of(self, pair: SlicePair) -> KeyChange:
        old, new = pair
        if self._only_replaces(old, new):
            return KeyChange()
        there, now = self._keys(old, self.before), self._keys(new, self.after)
        return KeyChange(added=_without(now, there), removed=_without(there, now))

    def _only_replaces(self, old: FileSlice | None, new: FileSlice | None) -> bool:
        if old is None or new is None or old.base_file is None or old.base_file != new.base_file:
            return False
        selected = FileSliceMerge(self.table.store, new, self.after, []).select_blocks()
        return not may_delete(selected, self.after)

    def _keys(self, piece: FileSlice | None, reading: SliceContext) -> pa.Array:
        if piece is None:
            return pa.array([], pa.string())
        merge = FileSliceMerge(self.table.store, piece, reading, [RECORD_KEY])
        batches = [rows.column(0).cast(pa.string()) for rows in merge.batches()]
        return pa.concat_arrays(batches) if batches else pa.array([], pa.string())


def _without(keys: pa.Array, others: pa.Array) -> list[str]:
    """The keys that are not among others; rows without a key have none."""
    left = keys if not len(others) else keys.filter(pc.invert(pc.is_in(keys, value_set=others)))
    found: list[str] = left.drop_null().to_pylist()
    return found
