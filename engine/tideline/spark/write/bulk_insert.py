"""Bulk insert on Spark: every row to new file groups, no lookup, no workload profile.

The sort mode decides what happens to the rows before they are written:

- NONE: nothing is shuffled or sorted. Each task keeps one file open for every partition it meets.
- PARTITION_SORT: rows are sorted by (partition, key) within their tasks.
- GLOBAL_SORT: rows are sorted by (partition, key) over all tasks.

Source: Hudi's BulkInsertSortMode and its partitioners.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from tideline.hudi.file_group.create_handle import CreateHandle
from tideline.hudi.file_group.handle_context import IS_DELETE, RECORD_KEY, HandleContext
from tideline.hudi.keys.partition_path import check_new_partition, check_partition_paths
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.write.bucket_write import handle_columns
from tideline.hudi.write.config import SortMode
from tideline.hudi.write.new_file_id import new_file_id
from tideline.spark.quoting import column_named
from tideline.spark.task_errors import carried_errors, raised_errors
from tideline.spark.write.batch import (
    PARTITION_PATH,
    PreparedBatch,
    refuse_bad_keys,
    refuse_bad_partitions,
)
from tideline.spark.write.routing_sources import RoutingSources
from tideline.spark.write.tasks import SPARK_STAT_SCHEMA, bound_to_task, stat_batch
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore

BAD_KEYS = "tidelineBadKeys"
BAD_PARTITIONS = "tidelineBadPartitions"
"""What a task reports with its write stats: how many rows had no record key, or no partition."""
_OPEN_PARTITIONS_MAX = 100
_PENDING_BYTES_MAX = 256 * 1024 * 1024


def bulk_insert(
    table: HoodieTable,
    batch: PreparedBatch,
    context: HandleContext,
    sort_mode: SortMode,
    tasks: int = 0,
) -> Sequence[WriteStat]:
    """Write `batch` to new files, in at most `tasks` tasks (0: no limit).

    Raises InvalidDataError when rows lack a key or a place.
    """
    flags = [IS_DELETE] if batch.has_deletes else []
    sources = batch.sources
    computed = [name for name in (sources.partition, sources.key) if name.startswith("_hoodie_")]
    columns = [*computed, *flags, *context.schema.names]
    arranged = _arranged(batch.rows, sort_mode, tasks)
    rows = arranged.select(*[column_named(name) for name in columns])
    task = BulkInsert(table.location, context, sources)
    with raised_errors():
        answers = rows.mapInArrow(task, SPARK_STAT_SCHEMA).collect()
    reports = [json.loads(row[0]) for row in answers]
    uri = table.location.uri
    refuse_bad_keys(batch, sum(report.get(BAD_KEYS, 0) for report in reports), uri)
    bad_partitions = sum(report.get(BAD_PARTITIONS, 0) for report in reports)
    refuse_bad_partitions(batch, bad_partitions, uri)
    stats = [WriteStat.from_report(report) for report in reports if BAD_KEYS not in report]
    check_partition_paths({stat.partition_path or "" for stat in stats}, table=uri)
    return stats


def _arranged(rows: DataFrame, sort_mode: SortMode, tasks: int) -> DataFrame:
    if sort_mode is SortMode.GLOBAL_SORT:
        if tasks:
            ranges = rows.repartitionByRange(tasks, PARTITION_PATH, RECORD_KEY)
            return ranges.sortWithinPartitions(PARTITION_PATH, RECORD_KEY)
        return rows.orderBy(PARTITION_PATH, RECORD_KEY)
    rows = rows.coalesce(tasks) if tasks else rows
    if sort_mode is SortMode.PARTITION_SORT:
        return rows.sortWithinPartitions(PARTITION_PATH, RECORD_KEY)
    return rows


@dataclass(frozen=True, slots=True)
class BulkInsert:
    """Task function: rows in any order -> one stat per file written."""

    location: StoreLocation
    context: HandleContext
    sources: RoutingSources

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bad_keys = bad_partitions = 0
        context, store = bound_to_task(self.context), self.location.open()
        with carried_errors(), OpenPartitions(context, store, self.sources) as partitions:
            for batch in batches:
                bad_keys += self.sources.bad_keys(batch)
                bad_partitions += self.sources.partition_paths(batch).null_count
                # The write is refused once a row is bad; rows only count from then on.
                if not bad_keys and not bad_partitions:
                    partitions.write(batch)
        yield stat_batch(partitions.stats)
        if bad_keys or bad_partitions:
            text = json.dumps({BAD_KEYS: bad_keys, BAD_PARTITIONS: bad_partitions})
            yield pa.record_batch([pa.array([text])], names=["stat"])


class OpenPartitions:
    """A create handle for every partition a task meets, within bounds.

    Too many open partitions: the one unused for longest is closed; should it come back it gets
    another file. Too much held in memory: the fullest is written out as a row group.
    """

    def __init__(self, context: HandleContext, store: ObjectStore, sources: RoutingSources) -> None:
        self.stats: list[WriteStat] = []
        """One per file; complete once the block is left."""
        self._context = context
        self._store = store
        self._sources = sources
        self._open: dict[str, CreateHandle] = {}

    def __enter__(self) -> OpenPartitions:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        closing = ExitStack()
        for handle in self._open.values():
            closing.push(handle)
        closing.__exit__(kind, error, trace)
        for handle in self._open.values():
            self.stats += handle.stats

    def write(self, batch: pa.RecordBatch) -> None:
        """Send the rows of a batch to their partitions, keeping their order."""
        encoded = self._sources.partition_paths(batch).dictionary_encode()
        for code, partition in enumerate(encoded.dictionary.to_pylist()):
            rows = batch
            if len(encoded.dictionary) > 1:
                rows = batch.filter(pc.equal(encoded.indices, code))
            self._handle(partition).write(handle_columns(self._context, rows, self._sources.key))
        while sum(map(_pending_bytes, self._open.values())) > _PENDING_BYTES_MAX:
            max(self._open.values(), key=_pending_bytes).flush()

    def _handle(self, partition: str) -> CreateHandle:
        # Taken out and put back: the order of the dict is the order of last use.
        handle = self._open.pop(partition, None)
        if handle is None:
            if len(self._open) >= _OPEN_PARTITIONS_MAX:
                self._close(next(iter(self._open)))
            check_partition_paths([partition], table=self._store.uri)
            check_new_partition(self._store, partition)
            handle = CreateHandle(self._context, self._store, partition, new_file_id())
        self._open[partition] = handle
        return handle

    def _close(self, partition: str) -> None:
        with self._open.pop(partition) as handle:
            pass
        self.stats += handle.stats


def _pending_bytes(handle: CreateHandle) -> int:
    return handle.pending_bytes
