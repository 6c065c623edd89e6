"""Keeping one row per key inside one task, on batches sorted by key.

Every duplicate of a key lands in the same bucket, because buckets are a pure function of the
key. Sorted by (key, ordering values, arrival), the row that wins is the last of its key: the
highest ordering value, among equal ones the later row (Hudi's preCombine). So dropping duplicates
needs no shuffle of its own, only a look at the next row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from tideline.hudi.file_group.handle_context import RECORD_KEY


def keep_last_of_key(
    batches: Iterable[pa.RecordBatch], key: str = RECORD_KEY
) -> Iterator[pa.RecordBatch]:
    """Drop every row whose key the next row repeats. `batches` are sorted by the column `key`.

    Holds back one row at each batch boundary, never more.
    """
    held: pa.RecordBatch | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        keys = batch.column(key)
        if held is not None and held.column(key)[0] != keys[0]:
            yield held
        last = batch.num_rows - 1
        if last > 0:
            kept = pc.not_equal(keys.slice(0, last), keys.slice(1, last))
            body = batch.slice(0, last)
            yield body if pc.all(kept).as_py() else body.filter(kept)
        held = batch.slice(last, 1)
    if held is not None:
        yield held
