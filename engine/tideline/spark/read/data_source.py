"""`spark.read.format("tideline").load(uri)`: tables through Spark's Python data source API.

Convenient where only SQL or reader options can be given. Every batch passes through a Python
worker; `LakeTable.snapshot` reads natively, and is the one to use for large tables.

Filters rule out partitions, files and row groups, and select rows before these reach Spark, which
asks them again. Which columns a query needs Spark does not say to such a source: a schema given to
the reader does, `spark.read.schema("id long").format("tideline")`.

Options are those of `SourceOptions`. With `changes=true` rows are what commits did to rows, with
`deletes=true` what these come down to (`change_source`). `spark.readStream` follows the table
(`stream_source`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from tideline.errors import ConfigError
from tideline.hudi.read.arrow_scan import nullable, possible_slices
from tideline.hudi.read.file_pruning import slices_with_rows
from tideline.hudi.read.partition_values import PartitionLayout
from tideline.hudi.read.slice_rows import SliceTask
from tideline.hudi.read.table_scan import TableScan, check_scan
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.spark.arrow_types import arrow_to_spark, spark_to_arrow
from tideline.spark.read.change_source import ChangesReader, changes_schema
from tideline.spark.read.file_slice_scan import slice_reader
from tideline.spark.read.pushed_filters import pushed_filter
from tideline.spark.read.source_options import SourceOptions, require_columns
from tideline.spark.read.stream_source import TidelineStreamReader

FORMAT = "tideline"

_PUSHES_FILTERS = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Make the format known to the session, and let filters be pushed into such sources."""
    spark.dataSource.register(TidelineDataSource)
    spark.conf.set(_PUSHES_FILTERS, "true")


class TidelineDataSource(DataSource):
    """A table as a Spark data source. Reads only."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        options = SourceOptions.of(self.options)
        table = options.open()
        if options.changes or options.deletes:
            return changes_schema(table, options)
        return arrow_to_spark(options.scan(table).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = SourceOptions.of(self.options)
        options.refuse_limits()
        table = options.open()
        if options.changes or options.deletes:
            return ChangesReader(table, options, schema)
        return TidelineReader(table, options.scan(table), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return TidelineStreamReader(SourceOptions.of(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        del schema, overwrite
        raise ConfigError(
            "the format is read-only: write with tideline.open(uri).write(frame)", value=FORMAT
        )


@dataclass(frozen=True, slots=True)
class SlicePartition(InputPartition):
    """One file slice: a base file, with its logs where it has any."""

    task: SliceTask


class TidelineReader(DataSourceReader):
    """Reads one file slice a task. Picklable: holds values only."""

    def __init__(self, table: HoodieTable, scan: TableScan, schema: StructType) -> None:
        require_columns(table, scan.schema, schema)
        layout = PartitionLayout.of(table.config, scan.schema)
        check_scan(table, scan, layout)
        commits = scan.commits
        row_filter = None if commits is None else commits.row_filter(scan.schema)
        self._table: HoodieTable | None = table
        self._location = table.location
        self._layout = layout
        self._columns = list(schema.names)
        self._slices = slice_reader(scan.slice_context(table), row_filter, spark_to_arrow(schema))
        self._file_slices = scan.all_slices()
        self._newest = scan.newest

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Use the filters, as far as they can be, to read less; Spark asks all of them again."""
        asked, stored = self._slices.target, self._slices.context.full_schema
        # The statistics of files are of stored values, whatever type these are asked for in.
        alike = [field for field in nullable(asked) if _is_read_as_stored(field, stored)]
        found = pushed_filter(filters, pa.schema(alike))
        if found is not None:
            known = replace(found, schema=nullable(asked)).and_also(self._slices.row_filter)
            self._slices = replace(self._slices, row_filter=known)
            self._file_slices = possible_slices(self._file_slices, known, self._layout)
            if self._table is not None:
                self._file_slices = slices_with_rows(
                    self._table,
                    self._file_slices,
                    found,
                    self._slices.context,
                    self._layout,
                    self._newest,
                )
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        return [
            SlicePartition(SliceTask.of(file_slice, self._layout))
            for file_slice in self._file_slices
        ]

    def __getstate__(self) -> dict[str, object]:
        """What goes to every task: not the other tasks' files, nor what they were chosen by."""
        return self.__dict__ | {"_file_slices": (), "_table": None, "_newest": None}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SlicePartition):
            # Spark runs one task even when there is nothing to read.
            return
        yield from self._slices.rows(self._location.open(), partition.task, self._columns)


def _is_read_as_stored(field: pa.Field, stored: pa.Schema) -> bool:
    return field.name in stored.names and stored.field(field.name).type == field.type
