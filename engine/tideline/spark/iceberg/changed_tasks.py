"""Tasks that write what becomes of files with rows that go: the rows that stay, or the deletes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tideline.iceberg.data.file_rows import FileRows
from tideline.iceberg.data.nested_column import ColumnPath
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.write.changed_files import ChangedFile, kept_rows, rows_of_files
from tideline.iceberg.write.new_deletes import NewDeletes
from tideline.iceberg.write.new_files import NewFiles
from tideline.spark.arrow_blocks import packed, tuples_of
from tideline.spark.iceberg.routes import InOrder, Routes, routed_blocks
from tideline.spark.iceberg.tasks import answer
from tideline.spark.iceberg.write import written_files

Packs = Sequence[Sequence[tuple[int, FileScanTask, int]]]
"""Files of a task: the number of each, and how many of its rows go."""


@dataclass(frozen=True, slots=True)
class RoutePlaces:
    """Task function: places of rows in a file in, for the pack of the file out."""

    SCHEMA: ClassVar[str] = "pack int, file int, block binary"
    packs: Mapping[int, int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            files = batch.column(0)
            numbers = pa.array([self.packs[file] for file in files.to_pylist()], pa.int32())
            yield pa.RecordBatch.from_arrays(
                [numbers, files, batch.column(1)], names=["pack", "file", "block"]
            )


@dataclass(frozen=True, slots=True)
class KeepRows:
    """Task function: places of rows that go in, new files with those that stay out."""

    io: FileIO
    metadata: TableMetadata
    packs: Packs
    files: NewFiles

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = kept_rows(self.io, self.metadata, _changed(self.packs, batches))
        yield answer(0, partial(written_files, self.files, rows))


@dataclass(frozen=True, slots=True)
class RouteKept:
    """Task function: the same rows, each for its task."""

    io: FileIO
    metadata: TableMetadata
    packs: Packs
    routes: Routes

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        changed = _changed(self.packs, batches)
        yield from routed_blocks(self.routes, kept_rows(self.io, self.metadata, changed))


@dataclass(frozen=True, slots=True)
class SampleKept:
    """Task function: numbers of packs in, the keys of every so many of their rows out, with those
    that go."""

    io: FileIO
    metadata: TableMetadata
    packs: Packs
    order: InOrder
    step: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (n for batch in batches for n in batch.column(0).to_pylist()):
            yield answer(number, partial(self._sample, self.packs[number]))

    def _sample(self, pack: Sequence[tuple[int, FileScanTask, int]]) -> bytes:
        fields = self.metadata.schema().fields
        paths = (ColumnPath.find(fields, number) for number in self.order.order.source_ids)
        names = {fields[path.column].name for path in paths if path is not None}
        layout = RowLayout.of(self.metadata).projected(names, has_lineage=False)
        rows = rows_of_files(self.io, layout, [task for _, task, _ in pack])
        return packed(replace(self.order, schema=layout.schema).sampled(rows, self.step))


@dataclass(frozen=True, slots=True)
class Taken:
    """The delete files of a task, those that they make needless, and the data files that go as a
    whole, which have none."""

    written: list[DataFile]
    removed: list[DataFile]
    whole: list[str]


@dataclass(frozen=True, slots=True)
class DeleteRows:
    """Task function: places of rows that go in, delete files out."""

    io: FileIO
    metadata: TableMetadata
    packs: Packs

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield answer(0, partial(self._taken, batches))

    def _taken(self, batches: Iterable[pa.RecordBatch]) -> Taken:
        reader = FileRows(self.io, RowLayout.of(self.metadata), any_format=True)
        whole: list[str] = []
        partly: list[ChangedFile] = []
        for file in _changed(self.packs, batches):
            task = file.task
            # With equality deletes all of its rows would have to be read to know.
            gone = file.count + len(reader.deleted_positions(task))
            if not task.equality_deletes and gone == task.data_file.record_count:
                whole.append(task.data_file.file_path)
            else:
                partly.append(file)
        deletes = NewDeletes(self.io, self.metadata)
        deletes.add(partly)
        return Taken(deletes.written, deletes.removed, whole)


def _changed(packs: Packs, batches: Iterable[pa.RecordBatch]) -> Iterator[ChangedFile]:
    """The files of these packs, with all places of rows that go."""
    for pack, of_pack in groupby(tuples_of(batches), key=itemgetter(0)):
        tasks = {number: task for number, task, _ in packs[pack]}
        for file, of_file in groupby(of_pack, key=itemgetter(1)):
            parts = [np.frombuffer(block, np.int64) for _, _, block in of_file]
            places = np.sort(np.concatenate(parts))
            yield ChangedFile(tasks[file], len(places), is_whole=False, positions=places)
