"""Batches of rows put together, for work that is not worth while on a few rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def gathered(batches: Iterable[pa.RecordBatch], size_bytes: int) -> Iterator[pa.Table]:
    """Tables of successive batches, of so many bytes in memory or a batch more; the last has the
    rest."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes >= size_bytes:
            yield pa.Table.from_batches(held)
            held, held_bytes = [], 0
    if held:
        yield pa.Table.from_batches(held)
