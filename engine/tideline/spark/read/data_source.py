"""`spark.read.format("tideline").load(uri)`: tables through Spark's Python data source API.

Convenient where only SQL or reader options can be given. Every batch passes through a Python
worker; `LakeTable.snapshot` reads natively and prunes, and is the one to use for large tables.

Options: `as_of`; or `after` and `until` for an incremental read; and the storage options of
`StoreLocation` (`endpoint`, `region`, `path_style`, `allow_http`, `ca_bundle`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tideline.errors import ConfigError, CorruptTableError, ObjectNotFoundError
from tideline.formats.parquet_calendar import FileCalendar
from tideline.hudi.table.file_group import BaseFile
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import COMMIT_TIME
from tideline.hudi.table.stored_value import converted_array
from tideline.spark.arrow_types import arrow_to_spark, spark_to_arrow
from tideline.spark.read.file_slice_scan import slice_reader, slice_task
from tideline.spark.read.incremental import plan_incremental
from tideline.spark.read.partition_values import PartitionLayout
from tideline.spark.read.slice_rows import SliceTask
from tideline.spark.read.snapshot import plan_snapshot
from tideline.spark.read.table_scan import CommitRange, TableScan, check_scan
from tideline.storage.location import OPTION_NAMES, StoreLocation

FORMAT = "tideline"

_PATH = "path"
_RANGE_OPTIONS = ("as_of", "after", "until")
_BATCH_ROWS = 65_536


def register(spark: SparkSession) -> None:
    """Make the format known to the session."""
    spark.dataSource.register(TidelineDataSource)


class TidelineDataSource(DataSource):
    """A table as a Spark data source. Reads only."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        _, scan = _plan(self.options)
        return arrow_to_spark(scan.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        table, scan = _plan(self.options)
        return TidelineReader(table, scan, schema)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        del schema, overwrite
        raise ConfigError(
            "the format is read-only: write with tideline.open(uri).write(frame)", value=FORMAT
        )


@dataclass(frozen=True, slots=True)
class SlicePartition(InputPartition):
    """One file slice with logs."""

    task: SliceTask


@dataclass(frozen=True, slots=True)
class FilePartition(InputPartition):
    """One base file, and the values of columns that it leaves out."""

    file: BaseFile
    constants: tuple[tuple[str, str | None], ...] = ()


class TidelineReader(DataSourceReader):
    """Reads one base file or file slice a task. Picklable: holds values only."""

    def __init__(self, table: HoodieTable, scan: TableScan, schema: StructType) -> None:
        unknown = [name for name in schema.names if name not in scan.schema.names]
        if unknown:
            raise ConfigError("the table has no such columns", table=table.uri, value=unknown)
        self._location = table.location
        self._columns = pa.schema([scan.schema.field(name) for name in schema.names])
        self._target = spark_to_arrow(schema)
        self._commits = scan.commits
        self._history = scan.history(table)
        self._slices = slice_reader(scan.slice_context(table)) if scan.slices else None
        self._partitions = _partitions(table, scan)

    def partitions(self) -> Sequence[InputPartition]:
        return self._partitions

    def __getstate__(self) -> dict[str, object]:
        """What goes to every task: not the other tasks' files."""
        return self.__dict__ | {"_partitions": []}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, SlicePartition):
            yield from self._merged(partition.task)
            return
        if not isinstance(partition, FilePartition):
            # Spark runs one task even when there is nothing to read.
            return
        for batch in self._batches(partition.file):
            rows = batch if self._commits is None else batch.filter(_within(self._commits, batch))
            if rows.num_rows:
                yield self._shaped(rows, dict(partition.constants))

    def _merged(self, task: SliceTask) -> Iterator[pa.RecordBatch]:
        assert self._slices is not None
        names = self._target.names
        wanted = names if self._commits is None else list(dict.fromkeys([*names, COMMIT_TIME]))
        for batch in self._slices.rows(self._location.open(), task, wanted):
            rows = batch if self._commits is None else batch.filter(_within(self._commits, batch))
            if rows.num_rows:
                yield rows.select(names)

    def _batches(self, file: BaseFile) -> Iterator[pa.RecordBatch]:
        store = self._location.open()
        try:
            with pq.ParquetFile(
                store.local_path(file.path) or store.open_reader(file.path),
                coerce_int96_timestamp_unit="us",
                pre_buffer=True,
            ) as source:
                stored = self._history.names_at(file.instant) if self._history else None
                columns = (*self._columns.names, COMMIT_TIME)
                sources = columns if stored is None else stored.stored(columns)
                wanted = {name.casefold() for name in sources}
                names = [name for name in source.schema_arrow.names if name.casefold() in wanted]
                calendar = FileCalendar.of(source.metadata)
                for batch in source.iter_batches(_BATCH_ROWS, columns=names, use_threads=False):
                    calendar.check_all(batch, file.path)
                    yield batch if stored is None else stored.renamed(batch)
        except (ObjectNotFoundError, FileNotFoundError) as error:
            raise CorruptTableError(
                "base file is missing", table=self._location.uri, path=file.path
            ) from error
        except pa.ArrowInvalid as error:
            raise CorruptTableError(
                "base file cannot be read",
                table=self._location.uri,
                path=file.path,
                value=error,
            ) from error

    def _shaped(self, rows: pa.RecordBatch, constants: Mapping[str, str | None]) -> pa.RecordBatch:
        """The rows in the table's types, in Spark's Arrow types, in order."""
        folded = {name.casefold(): name for name in reversed(rows.schema.names)}
        arrays = []
        for column, target in zip(self._columns, self._target, strict=True):
            name = column.name if column.name in rows.schema.names else None
            name = name or folded.get(column.name.casefold())
            if name is not None:
                array = converted_array(rows.column(name), column.type)
            else:
                text = constants.get(column.name)
                array = pa.repeat(pa.scalar(text, column.type), rows.num_rows)
            arrays.append(array.cast(target.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)


def _plan(options: Mapping[str, str]) -> tuple[HoodieTable, TableScan]:
    given = {name.lower(): text for name, text in options.items()}
    known = (_PATH, *_RANGE_OPTIONS, *OPTION_NAMES)
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ConfigError(f"unknown option; there are {', '.join(known)}", value=unknown[0])
    if _PATH not in given:
        raise ConfigError('name the table: spark.read.format("tideline").load(uri)')
    stored = {name: given[name] for name in OPTION_NAMES if name in given}
    table = HoodieTable.open(StoreLocation.of(given[_PATH], stored))
    if "after" not in given:
        if "until" in given:
            raise ConfigError("`until` needs `after`; for a snapshot use `as_of`")
        scan = plan_snapshot(table, given.get("as_of"))
    elif "as_of" in given:
        raise ConfigError("`as_of` is for snapshots and `after` for incremental reads: choose one")
    else:
        scan = plan_incremental(table, given["after"], given.get("until"))
    return table, scan


def _partitions(table: HoodieTable, scan: TableScan) -> list[InputPartition]:
    layout = PartitionLayout.of(table.config, scan.schema)
    check_scan(table, scan, layout)
    merged = [SlicePartition(slice_task(piece, layout)) for piece in scan.slices]
    if layout is None or not layout.is_dropped:
        return [*merged, *(FilePartition(file) for file in scan.files)]
    names = layout.schema.names
    return merged + [
        FilePartition(file, tuple(zip(names, layout.values(file.partition) or (), strict=True)))
        for file in scan.files
    ]


def _within(commits: CommitRange, batch: pa.RecordBatch) -> pa.Array:
    time = batch.column(COMMIT_TIME)
    if commits.times is not None:
        return pc.is_in(time, value_set=pa.array([str(one) for one in commits.times], time.type))
    later = pc.greater(time, commits.after.value)
    return pc.and_(later, pc.less_equal(time, commits.until.value))
