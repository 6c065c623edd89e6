"""Batches of rows put together, for work that is not worth while on a few rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa


def size_bytes(batch: pa.RecordBatch) -> int:
    """What a batch takes in memory."""
    return int(batch.nbytes)


def gathered(
    batches: Iterable[pa.RecordBatch],
    size_max: int,
    size: Callable[[pa.RecordBatch], int] = size_bytes,
) -> Iterator[pa.Table]:
    """Tables of successive batches, each ended by the batch that reaches `size_max`: bytes, or what
    `size` counts. The last has the rest."""
    held: list[pa.RecordBatch] = []
    held_size = 0
    for batch in batches:
        held.append(batch)
        held_size += size(batch)
        if held_size >= size_max:
            yield pa.Table.from_batches(held)
            held, held_size = [], 0
    if held:
        yield pa.Table.from_batches(held)
