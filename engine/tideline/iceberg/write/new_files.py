"""New data files of a table: rows placed by the current partition spec, in the table's sort order.

Rows stream into one file a partition, or more where these reach the target size. Those of a table
with a sort order are sorted some hundred megabytes at a time, so that each file is in order.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from tideline.formats.gathered_rows import gathered
from tideline.iceberg.data.file_layout import FileLayout
from tideline.iceberg.data.metrics_mode import MetricsConfig
from tideline.iceberg.data.parquet_settings import ParquetSettings
from tideline.iceberg.data.partitioned_writer import Output, write_data_files
from tideline.iceberg.data.row_lineage import fields_with_lineage, has_lineage
from tideline.iceberg.data.row_order import RowOrder
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.data_locations import DataLocations
from tideline.iceberg.metadata.partition_spec import PartitionSpec
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.clean_up import remove_quietly
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.write.carried_variants import with_carried_variants
from tideline.iceberg.write.distribution import Distribution
from tideline.iceberg.write.row_change import branch_head
from tideline.iceberg.write.write_request import IcebergWrite
from tideline.iceberg.write.write_settings import WriteSettings

_SORTED_BYTES = 256 * 1024 * 1024
_ROW_BYTES = 64.0


@dataclass(slots=True)
class NewFiles:
    """The files that one write has made so far; without a commit they are of no use."""

    io: FileIO
    metadata: TableMetadata
    head: Snapshot | None
    settings: WriteSettings
    layout: FileLayout
    write_id: str
    distribution: Distribution
    written: list[DataFile] = field(default_factory=list)
    _outputs: int = 0

    @classmethod
    def of(
        cls,
        io: FileIO,
        metadata: TableMetadata,
        write: IcebergWrite,
        *,
        takes_stored: bool = False,
    ) -> NewFiles:
        """For a table as it is; `takes_stored`: rows of other files may come, with their lineage.
        Raises ConfigError, UnsupportedTableError, CorruptTableError."""
        settings = WriteSettings.of(metadata, write.options)
        metadata = with_carried_variants(metadata)
        head = branch_head(metadata, write.branch)
        schema, order = metadata.schema(), metadata.sort_order()
        carries = takes_stored and has_lineage(metadata)
        layout = FileLayout(
            schema_id=schema.schema_id,
            fields=fields_with_lineage(schema.fields, has_lineage=carries),
            parquet=ParquetSettings.of(settings.properties, schema),
            metrics=MetricsConfig.of(settings.properties, schema, order),
            sort_order_id=order.order_id,
        )
        distribution = Distribution.of(metadata, settings, write.operation)
        return cls(io, metadata, head, settings, layout, f"write-{uuid.uuid4()}", distribution)

    @property
    def spec(self) -> PartitionSpec:
        """What places the rows."""
        return self.metadata.spec(self.metadata.default_spec_id)

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Write rows in the table's columns. Raises what reading and writing them raise."""
        fields = self.metadata.sort_order().fields
        if not fields:
            self._write(batches)
            return
        order = RowOrder(fields).within(self.spec)
        for rows in gathered(batches, _SORTED_BYTES):
            for part in order.sorted_parts(rows.to_batches(), self.metadata.schema()):
                self._write(part)

    def of_attempt(self, attempt: int) -> NewFiles:
        """Others of the same write, which an attempt of a task makes by names of its own."""
        return replace(self, write_id=f"{self.write_id}-{attempt}", written=[])

    def discard(self) -> None:
        """Remove all of them, as far as the store lets it."""
        remove_quietly(self.io, [file.file_path for file in self.written])
        self.written.clear()

    @property
    def rows(self) -> int:
        """How many rows they hold."""
        return sum(file.record_count for file in self.written)

    def _write(self, batches: Iterable[pa.RecordBatch]) -> None:
        known = (None,) * len(self.spec.fields) if self.spec.is_unpartitioned else None
        self.written += write_data_files(self.io, self.layout, self._output(known), batches)

    def _output(self, partition: tuple[Any, ...] | None) -> Output:
        self._outputs += 1
        return Output(
            schema=self.metadata.schema(),
            spec=self.spec,
            partition=partition,
            locations=DataLocations.of(self.metadata),
            name_prefix=f"{self._outputs - 1:05d}-{self.write_id}",
            row_bytes=_row_bytes({} if self.head is None else self.head.summary),
            size_bytes_max=self.settings.target_bytes,
        )


def _row_bytes(summary: Mapping[str, str]) -> float:
    """About what a row of the table takes in its files: only a guess until some are written."""
    try:
        rows = int(summary.get("total-records", 0))
        return int(summary.get("total-files-size", 0)) / rows if rows else _ROW_BYTES
    except ValueError:
        return _ROW_BYTES
