"""Which of the keys found in a file slice the logs on top of it have deleted.

1. The headers of the log's blocks say whether any can delete: a block of deletes, or rows with a
   column that marks deletes.
2. Only then are the keys of the whole slice merged; what is found but not among them is deleted.

A delete that loses by event time deletes nothing, which is why the slice is merged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.hudi.file_group.file_slice_merge import FileSliceMerge, SliceContext, read_file_slice
from tideline.hudi.file_group.lookup_candidate import LookupCandidate
from tideline.hudi.log.block_scan import SelectedBlocks
from tideline.hudi.log.entry_fold import Flags
from tideline.hudi.log.merged_log import IS_DELETED_COLUMN, OPERATION_COLUMN
from tideline.storage.object_store import ObjectStore


def deleted_keys(
    store: ObjectStore,
    candidate: LookupCandidate,
    reading: SliceContext,
    wanted: pa.Array,
    columns: Sequence[str],
    keys_of: Callable[[pa.RecordBatch], pa.Array],
) -> Flags | None:
    """Which of the `wanted` keys the slice has no more; None when its logs delete nothing.

    `keys_of` makes the keys of rows with these `columns`. A key that never was in the slice is
    among the deleted. Raises as `read_file_slice`.
    """
    if not candidate.later_logs:
        return None
    whole = candidate.whole
    if not may_delete(FileSliceMerge(store, whole, reading, columns).select_blocks(), reading):
        return None
    gone = np.ones(len(wanted), dtype=np.bool_)
    for rows in read_file_slice(store, whole, reading, columns):
        found = pc.index_in(keys_of(rows), value_set=wanted).drop_null()
        gone[found.to_numpy(zero_copy_only=False)] = False
    return gone


def may_delete(selected: SelectedBlocks, reading: SliceContext) -> bool:
    """Whether any block can delete, going by headers alone."""
    marks = [IS_DELETED_COLUMN, OPERATION_COLUMN, *filter(None, [reading.delete_field])]
    return any(
        block.is_delete or any(f'"{name}"' in block.schema_json for name in marks)
        for block in selected.blocks
    )
