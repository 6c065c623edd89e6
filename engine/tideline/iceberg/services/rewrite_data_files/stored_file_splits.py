"""The row groups of a pack of file splits: those that are copied, and the live rows of the others.

1. A file that is large enough, and to which no equality deletes apply, has its footer looked at.
2. The row groups of a split that fit the new files, at least in another codec, and that no position
   is deleted from, are copied. Numbers of NaN, which no footer has, are counted in their columns,
   unless the manifest says that the file has none.
3. The rest is read as rows, without what is deleted. So is a file whose footer cannot be used here,
   which reading then reports in its own words.

Files are looked at one after another, so that memory holds one footer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from tideline.iceberg.data.column_metrics import NanCounter
from tideline.iceberg.data.copy_rules import CopyRules
from tideline.iceberg.data.data_file_writer import CopiedRowGroup
from tideline.iceberg.data.file_layout import FileLayout
from tideline.iceberg.data.file_rows import FileRows
from tideline.iceberg.data.parquet_rows import FilePart, RowGroups
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.services.rewrite_data_files.file_split import FileSplit
from tideline.iceberg.services.rewrite_data_files.stored_file import open_stored, reason_to_encode
from tideline.iceberg.table.file_io import FileIO
from tideline.parquet.spliced_file import StoredParquet
from tideline.parquet.stored_footer import StoredRowGroup


class StoredFileSplits:
    """File splits whose rows become one pack: first `copies`, then `rows`."""

    def __init__(
        self, io: FileIO, rows: RowLayout, files: FileLayout, file_splits: Sequence[FileSplit]
    ) -> None:
        self._io = io
        self._files = files
        self._file_splits = file_splits
        self._reader = FileRows(io, rows)
        self._rules = CopyRules.of(files.fields, files.parquet, files.metrics)
        self._encoded: list[tuple[FileScanTask, FilePart | None]] = []
        self._nan_counts = NanCounter(files.fields, files.metrics).counts
        counters = ((field, NanCounter([field], files.metrics)) for field in files.fields)
        self._nan_fields = [
            (field, nan_counter.counts) for field, nan_counter in counters if nan_counter.counts
        ]

    def copies(self) -> Iterator[CopiedRowGroup]:
        """The row groups that are copied. Raises ObjectNotFoundError, StorageUnavailableError and,
        for what counting NaN or reading deletes finds, CorruptTableError."""
        for file_split in self._file_splits:
            source = None
            if reason_to_encode(self._rules, file_split.task) is None:
                source = open_stored(self._io, file_split.task.data_file)
            if source is None:
                self._encoded.append((file_split.task, file_split.part))
            else:
                yield from self._copies_of(file_split, source)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The live rows of all that is not copied. Raises what reading raises."""
        for task, part in self._encoded:
            yield from self._reader.batches(task, part)

    def _copies_of(self, file_split: FileSplit, source: StoredParquet) -> Iterator[CopiedRowGroup]:
        task, part = file_split.task, file_split.part
        treatments = self._rules.treatments(source, self._deleted_from(task))
        encoded = set()
        for number, group in enumerate(source.footer.row_groups):
            if part is not None and not part.holds(number, group.start):
                continue
            if treatments[number].keeps_values:
                size_bytes = self._rules.size_expected(group)
                yield CopiedRowGroup(source, group, self._nans(task, number), size_bytes)
            else:
                encoded.add(number)
        if encoded:
            self._encoded.append((task, RowGroups(frozenset(encoded))))

    def _deleted_from(self, task: FileScanTask) -> Callable[[StoredRowGroup], bool]:
        deleted = self._reader.deleted_positions(task)

        def is_deleted_from(group: StoredRowGroup) -> bool:
            ends = [group.first_row, group.first_row + group.rows]
            low, high = np.searchsorted(deleted, ends).tolist()
            return bool(low < high)

        return is_deleted_from

    def _nans(self, task: FileScanTask, number: int) -> Mapping[int, int]:
        known = task.data_file.nan_value_counts or {}
        fields = [
            field
            for field, leaves in self._nan_fields
            if any(known.get(leave) != 0 for leave in leaves)
        ]
        counter = NanCounter(fields, self._files.metrics)
        if fields:
            part = RowGroups(frozenset({number}))
            for batch in self._reader.columns(task.data_file, fields, part):
                counter.add(batch)
        return {**self._nan_counts, **counter.counts}
