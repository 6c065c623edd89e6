"""Sorting a file group that memory does not hold, in this process, through files on its disk.

1. A sample of the sort keys cuts the order into many parts (`row_routing`).
2. Threads read file splits and append the rows of each part, compressed, to a file of their own
   in a temporary folder; where the blocks of a part lie is kept in memory.
3. Each new file is written by one thread: neighbouring parts that together are small enough are
   loaded, sorted and written, then the next ones.

The disk has to hold about as much as the group, and twice as much where it compresses well.
"""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import BinaryIO, TypeVar

import pyarrow as pa

from tideline.iceberg.data.partitioned_writer import write_data_files
from tideline.iceberg.data.row_order import RowOrder
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.services.rewrite_data_files.execute import RewriteContext, output
from tideline.iceberg.services.rewrite_data_files.file_split import FileSplit, packed_splits
from tideline.iceberg.services.rewrite_data_files.plan import FileGroup
from tideline.iceberg.services.rewrite_data_files.row_routing import (
    SAMPLE_ROWS_PER_PART,
    Routes,
    key_layout,
    sampled_keys,
)
from tideline.iceberg.table.file_io import FileIO

PART_BYTES = 16 * 1024 * 1024
"""Stored bytes of a part."""
_PARTS_MAX = 4096
_SPLIT_BYTES = 24 * 1024 * 1024
_LOADED_BYTES = 64 * 1024 * 1024
"""Rows in memory that are sorted at once, unless one part has more."""
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows of one part: where they lie in a spill file, and their size in memory."""

    source: int
    file: int
    at: int
    size_bytes: int
    loaded_bytes: int


@dataclass(frozen=True, slots=True)
class SpilledSort:
    """One ordered group that is written by so many threads of this process."""

    io: FileIO
    context: RewriteContext
    group: FileGroup
    order: RowOrder
    threads: int
    part_bytes: int = PART_BYTES

    def write(self) -> tuple[DataFile, ...]:
        """The new files; when that fails none remains.

        Raises what reading and writing data files raises, and OSError when the disk is full.
        """
        with (
            tempfile.TemporaryDirectory(prefix="tideline-sort-") as folder,
            closing(_Spill(Path(folder))) as spilled,
            ThreadPoolExecutor(self.threads, thread_name_prefix="sort") as pool,
        ):
            file_splits = packed_splits(self.group, min(_SPLIT_BYTES, 4 * self.part_bytes))
            routes = self._routes(pool, file_splits)
            _all(pool, lambda pair: self._spill(spilled, routes, *pair), enumerate(file_splits))
            files = [file for file in range(self._files) if spilled.has_rows(self._of(file))]
            written: list[DataFile] = []
            try:
                # Kept as they are written: when one fails, the others are taken back.
                _all(
                    pool,
                    lambda file: written.extend(self._write(spilled, routes.order, file)),
                    files,
                )
            except BaseException:
                pool.shutdown(cancel_futures=True)
                self.io.remove_written(file.file_path for file in written)
                raise
        return tuple(sorted(written, key=lambda file: file.file_path))

    @property
    def _files(self) -> int:
        return self.group.outputs_expected

    @property
    def _parts(self) -> int:
        """Of each file."""
        parts = -(-self.group.input_bytes // (self._files * self.part_bytes))
        return max(1, min(parts, _PARTS_MAX // self._files))

    def _of(self, file: int) -> range:
        """The parts of a file."""
        return range(file * self._parts, (file + 1) * self._parts)

    def _routes(
        self, pool: ThreadPoolExecutor, file_splits: Sequence[tuple[FileSplit, ...]]
    ) -> Routes:
        parts = self._files * self._parts
        keys = key_layout(self.context.rows, self.order)
        wanted = max(1, SAMPLE_ROWS_PER_PART * parts // len(file_splits))
        samples = _all(pool, lambda some: sampled_keys(self.io, keys, some, wanted), file_splits)
        sample = pa.concat_tables(samples)
        return Routes.of(self.order, keys, sample, self.context.rows.schema, parts)

    def _spill(
        self, spilled: _Spill, routes: Routes, number: int, file_splits: tuple[FileSplit, ...]
    ) -> None:
        with spilled.file() as stream:
            for part, rows in routes.routed(self.io, self.context.rows, file_splits):
                spilled.append(stream, part, rows, source=number)

    def _write(self, spilled: _Spill, order: RowOrder, file: int) -> tuple[DataFile, ...]:
        target = output(self.context, self.group, "sorted")
        named = replace(target, name_prefix=f"{target.name_prefix}-{file:05d}")
        rows = self._sorted(spilled, order, self._of(file))
        return write_data_files(self.io, self.context.files, named, rows)

    def _sorted(self, spilled: _Spill, order: RowOrder, parts: range) -> Iterator[pa.RecordBatch]:
        for some in spilled.together(parts):
            for rows in order.sorted_parts(spilled.load(some), self.context.rows.schema):
                yield from rows


class _Spill:
    """The spill files of one sort."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._idle: list[BinaryIO] = []
        self._files: list[BinaryIO] = []
        self._blocks: dict[int, list[_Block]] = defaultdict(list)

    @contextmanager
    def file(self) -> Iterator[BinaryIO]:
        """A file that no other thread writes to at the moment."""
        with self._lock:
            if not self._idle:
                path = self._folder / f"{len(self._files):05d}"
                self._files.append(path.open("w+b"))
                self._idle.append(self._files[-1])
            stream = self._idle.pop()
        yield stream
        stream.flush()
        with self._lock:
            self._idle.append(stream)

    def append(self, stream: BinaryIO, part: int, rows: pa.Table, *, source: int) -> None:
        """Put rows of a part at the end of a file; `source` is the number of their file splits."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as writer:
            writer.write_table(rows)
        body = sink.getvalue()
        block = _Block(source, stream.fileno(), stream.tell(), len(body), rows.nbytes)
        stream.write(body)
        with self._lock:
            self._blocks[part].append(block)

    def has_rows(self, parts: range) -> bool:
        return any(part in self._blocks for part in parts)

    def together(self, parts: range) -> Iterator[list[int]]:
        """Neighbouring parts that are small enough to be loaded together; larger ones alone."""
        some: list[int] = []
        loaded_bytes = 0
        for part in parts:
            size_bytes = sum(block.loaded_bytes for block in self._blocks.get(part, ()))
            if some and loaded_bytes + size_bytes > _LOADED_BYTES:
                yield some
                some, loaded_bytes = [], 0
            some.append(part)
            loaded_bytes += size_bytes
        if some:
            yield some

    def load(self, parts: Sequence[int]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            # In the order of their sources, so that equal rows stay as they were.
            for block in sorted(self._blocks.get(part, ()), key=lambda block: block.source):
                body = os.pread(block.file, block.size_bytes, block.at)
                with pa.ipc.open_stream(body) as reader:
                    yield from reader

    def close(self) -> None:
        for stream in self._files:
            stream.close()


def _all(pool: ThreadPoolExecutor, work: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """The results for all items, in order; when one fails, no other is begun."""
    futures = [pool.submit(work, item) for item in items]
    try:
        return [future.result() for future in futures]
    except BaseException:
        for future in futures:
            future.cancel()
        raise
