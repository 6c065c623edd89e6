"""Rows that travel between tasks as Arrow bytes: they never become Spark rows, no type is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")


def packed(rows: pa.Table) -> bytes:
    """The rows as one block."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as writer:
        writer.write_table(rows.combine_chunks())
    body: bytes = sink.getvalue().to_pybytes()
    return body


def unpacked(block: bytes) -> pa.Table:
    """The rows of a block."""
    with pa.ipc.open_stream(block) as reader:
        return reader.read_all()


def unpacked_rows(blocks: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """The rows of blocks, in their order."""
    for block in blocks:
        yield from unpacked(block).to_batches()


def tuples_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    """The rows of batches that Spark has, few and large: of blocks, with what tells them apart."""
    for batch in batches:
        for row in zip(*batch.columns, strict=True):
            yield tuple(value.as_py() for value in row)
