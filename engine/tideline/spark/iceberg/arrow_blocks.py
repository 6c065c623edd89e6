"""Rows that travel between tasks as Arrow bytes: they never become Spark rows, no type is lost."""

from __future__ import annotations

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
