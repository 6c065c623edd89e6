"""The rows that one file of a table holds, as they are: not merged, deleted and undone ones too.

A base file is read as a file slice of its own, so that old columns come as the table's. A log is
read block by block, whatever became of the instants that wrote them. Delete blocks hold keys alone
and are passed over. A publication's own file holds the rows that logs left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tideline.formats.base_file import OpenFile, open_rows
from tideline.formats.log_block import BlockKind
from tideline.hudi.file_group.file_slice_merge import SliceContext
from tideline.hudi.log.block_scan import LogBlock
from tideline.hudi.log.data_block import decode_data_block
from tideline.hudi.log.log_files import LogFiles
from tideline.hudi.log.merged_log import conformed_rows
from tideline.hudi.read.arrow_scan import nullable
from tideline.hudi.read.partition_values import PartitionLayout
from tideline.hudi.read.slice_rows import SliceReader, SliceTask
from tideline.hudi.read.table_scan import scan_schema
from tideline.hudi.table.file_group import PARQUET, BaseFile, FileSlice, LogFile
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.publication.merged_slices import OwnFile

StoredFile = BaseFile | LogFile | OwnFile
"""A file with rows: of the table, or of its publication."""
Complain = Callable[[str], None]
"""Takes the reason why something of a file is not among its rows."""


@dataclass(frozen=True, slots=True)
class StoredRowsReader:
    """Reads some columns of any data file of one table; `schema` is that of all its batches."""

    table: HoodieTable
    schema: pa.Schema
    full_schema: pa.Schema
    layout: PartitionLayout | None
    context: SliceContext

    @classmethod
    def of(cls, table: HoodieTable, timeline: ActiveTimeline) -> StoredRowsReader:
        found = scan_schema(table, timeline)
        return cls(
            table,
            nullable(found),
            nullable(found),
            PartitionLayout.of(table.config, found),
            SliceContext.of(table, timeline, found, merges=False),
        )

    def with_columns(self, names: Sequence[str]) -> StoredRowsReader:
        """The same for these columns alone."""
        return replace(self, schema=pa.schema([self.full_schema.field(name) for name in names]))

    def batches(self, file: StoredFile, complain: Complain) -> Iterator[pa.RecordBatch]:
        """Every row of the file. Raises CorruptTableError, UnsupportedTableError, what Arrow raises
        for broken files, and ObjectNotFoundError or CorruptTableError where it is gone."""
        if isinstance(file, BaseFile):
            file_slice = FileSlice(file.group, file.instant, file)
            reader = SliceReader(self.context, self.full_schema)
            task = SliceTask.of(file_slice, self.layout)
            yield from reader.rows(self.table.store, task, self.schema.names)
        elif isinstance(file, OwnFile):
            yield from self._published_rows(file)
        elif file.is_cdc:
            complain("a log of changes (CDC), whose images of rows are not counted")
        else:
            yield from self._log_rows(file, complain)

    def _published_rows(self, file: OwnFile) -> Iterator[pa.RecordBatch]:
        store = self.table.store
        with store.open_reader(file.path) as stream:
            rows = open_rows(PARQUET, OpenFile(stream, file.path, store.local_path(file.path)))
            stored = rows.schema.names
            # Some column must give the number of rows.
            names = [name for name in self.schema.names if name in stored] or stored[:1]
            constants = self._constants(file.partition)
            for batch in rows.batches(names):
                yield self._shaped(batch, constants)

    def _log_rows(self, log: LogFile, complain: Complain) -> Iterator[pa.RecordBatch]:
        files = LogFiles(self.table.store, (log,))
        for frame in files.frames(log):
            if frame.kind is BlockKind.CORRUPT:
                complain("a damaged block, which cannot be read")
            elif frame.kind.is_data:
                block = LogBlock(log, frame)
                if block.is_partial:
                    complain("a block with some of the columns alone: the others count as null")
                with files.named(log):
                    yield from self._block_rows(block, files.content(block))

    def _block_rows(self, block: LogBlock, content: bytes) -> Iterator[pa.RecordBatch]:
        history = self.context.history
        stored = history.names_at(block.instant) if history else None
        names = self.schema.names if stored is None else stored.stored(self.schema.names)
        rows = decode_data_block(block.frame.kind, content, block.schema_json, names)
        constants = self._constants(block.log.partition)
        for batch in rows.combine_chunks().to_batches():
            renamed = batch if stored is None else stored.renamed(batch)
            yield self._shaped(renamed, constants)

    def _constants(self, partition: str) -> Mapping[str, pa.Scalar]:
        """The values that the path gives for certain."""
        return self.layout.scalars(partition) if self.layout else {}

    def _shaped(self, batch: pa.RecordBatch, constants: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
        """The rows as the table has them."""
        batch = conformed_rows(batch, self.schema)
        arrays = [
            pa.repeat(constants[name], batch.num_rows) if name in constants else array
            for name, array in zip(self.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
