"""Rows of a stream that are looked at more than once: in memory, or mapped from a file if many."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import pyarrow as pa

_MEMORY_BYTES = 64 * 1024 * 1024


@contextmanager
def held_rows(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, memory_bytes: int = _MEMORY_BYTES
) -> Iterator[pa.Table]:
    """All rows as one table, for as long as this is open. Raises what the stream raises."""
    held: list[pa.RecordBatch] = []
    size_bytes = 0
    with ExitStack() as stack:
        writer: pa.ipc.RecordBatchFileWriter | None = None
        path = ""
        for batch in batches:
            if writer is None and size_bytes + batch.nbytes > memory_bytes:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tideline-rows-"))
                path = f"{folder}/rows.arrow"
                writer = pa.ipc.new_file(path, schema)
                for earlier in held:
                    writer.write_batch(earlier)
                held.clear()
            size_bytes += batch.nbytes
            if writer is None:
                held.append(batch)
            else:
                writer.write_batch(batch)
        if writer is None:
            yield pa.Table.from_batches(held, schema=schema)
            return
        writer.close()
        mapped = stack.enter_context(pa.memory_map(path))
        yield pa.ipc.open_file(mapped).read_all()
