"""A range of topics as Spark reads it for one shape.

1. The range is divided into spans of offsets, several of one partition among them. Executors read
   and decode them (`span_tasks`), once: what they have read is kept, in memory and on disks, until
   it is in the table. What is lost with an executor is read again by the same offsets.
2. Records that are bad are known then, and the columns of all values: rows come after that.
3. A row knows its place in the range, so that what is written does not depend on the spans. A
   tombstone deletes earlier records of its key in other spans too.

Executors have their credentials in their environment. What travels to them has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from tideline.bad_input import BadInput, BadRow
from tideline.errors import ConfigError, InvalidDataError
from tideline.hudi.write.batch_rules import DELETED_FLAG
from tideline.ingest.sources.kafka.declared import DeclaredKafka
from tideline.ingest.sources.kafka.offsets import kafka_range_of
from tideline.ingest.sources.kafka.reader import Kept
from tideline.ingest.sources.kafka.records import KafkaRange
from tideline.ingest.sources.kafka.schema_registry import Registry
from tideline.ingest.sources.kafka.span_tasks import (
    BLOCK_RECORDS,
    BLOCK_SCHEMA,
    ReadSpans,
    UnpackRows,
    bad_of_block,
    columns_of_blocks,
    digests_of_block,
    range_once_read,
)
from tideline.ingest.sources.kafka.values import ValueReader
from tideline.ingest.sources.source import Measured, Range, Shape
from tideline.spark.arrow_types import arrow_to_spark, spark_to_arrow
from tideline.spark.services.tasks import numbered
from tideline.spark.source_records.rows import read_once, without_deleted
from tideline.spark.task_errors import raised_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SPAN_BYTES = 64 * 1024 * 1024
_SPAN_OFFSETS_MIN, _SPAN_OFFSETS_UNKNOWN = 1_000, 100_000


@dataclass(frozen=True, slots=True)
class KeptRecords:
    """What executors have read of a range for a shape, as blocks; `digests` are of bad records."""

    taken: KafkaRange
    shape: Shape
    blocks: DataFrame
    columns: pa.Schema
    measured: Measured
    digests: frozenset[int]

    @classmethod
    def read(
        cls, declared: DeclaredKafka, session: SparkSession, taken: KafkaRange, shape: Shape
    ) -> KeptRecords:
        """Raises as reading in one process does."""
        ValueReader(declared, shape, Registry(declared.registry)).check()
        spans = taken.divided(_span_length(taken, session.sparkContext.defaultParallelism))
        task = ReadSpans(declared, shape, spans, taken.shifts, taken.schemas, BLOCK_RECORDS)
        tasks = numbered(session, max(1, len(spans)))
        blocks = read_once(tasks.mapInArrow(task, arrow_to_spark(BLOCK_SCHEMA)))
        try:
            with raised_errors():
                facts = blocks.select(
                    *("arrival", "columns", "records", "size_bytes", "digests", "ended")
                )
                found = sorted(facts.collect(), key=lambda row: row["arrival"])
        except BaseException:
            blocks.unpersist()
            raise
        size_bytes = sum(row["size_bytes"] for row in found)
        ended = [bytes(row["ended"]) for row in found if row["ended"] is not None]
        return cls(
            taken,
            shape,
            blocks,
            columns_of_blocks(bytes(row["columns"]) for row in found),
            Measured(
                replace(range_once_read(taken, ended), size_bytes=size_bytes),
                sum(row["records"] for row in found),
                size_bytes,
            ),
            frozenset(
                digest
                for row in found
                if row["digests"] is not None
                for digest in digests_of_block(bytes(row["digests"]))
            ),
        )

    def rows(self) -> DataFrame:
        """The good rows, those left out that a later tombstone deletes."""
        wanted = arrow_to_spark(self.columns)
        task = UnpackRows(self.columns, spark_to_arrow(wanted))
        rows = self.blocks.select("rows").mapInArrow(task, wanted)
        if DELETED_FLAG not in self.columns.names:
            return rows
        return without_deleted(rows, self.shape.record_key, self.shape.ordering_columns)

    def bad(self, rows_max: int | None) -> BadInput:
        """Bad records by partition, where one has more than may be set aside only its first."""
        found: dict[str, list[BadRow]] = {}
        bad = self.blocks.where("bad is not null").orderBy("arrival").select("bad")
        with raised_errors():
            for row in bad.toLocalIterator():
                name, rows = bad_of_block(bytes(row["bad"]))
                kept = found.setdefault(name, [])
                if rows_max is None or len(kept) <= rows_max:
                    kept += rows
        for rows in found.values():
            rows.sort(key=lambda row: row.row)
        return BadInput(rows={name: tuple(rows) for name, rows in found.items()}).limited(rows_max)

    def release(self) -> None:
        self.blocks.unpersist()


@dataclass(frozen=True, slots=True)
class KafkaOnSpark:
    """See `tideline.ingest.sources.source.SparkRows`."""

    declared: DeclaredKafka
    session: SparkSession
    shape: Shape
    kept: Kept

    @property
    def remembers_columns(self) -> bool:
        return False

    @property
    def is_typed(self) -> bool:
        return True

    def source(self, taken: Range) -> DataFrame:
        """Raises InvalidDataError where records are bad that were not set aside."""
        found = self._records(taken)
        if found.digests - self.shape.left_out:
            raise InvalidDataError("records cannot be taken in", path=self.declared.uri)
        return found.rows()

    def finished(self, source: DataFrame) -> DataFrame:
        if self.shape.transform is not None or self.shape.delete_when is not None:
            raise ConfigError("records of topics are not transformed", path=self.declared.uri)
        return source

    def misfits(self, taken: Range) -> BadInput:  # noqa: ARG002
        """Columns are those that values are read for."""
        return BadInput()

    def find_bad(
        self,
        taken: Range,
        rows_max: int | None,
        try_rows: Callable[[DataFrame], None],  # noqa: ARG002
    ) -> BadInput:
        found = self._records(taken)
        return found.bad(rows_max) if found.digests else BadInput()

    def measured(self, taken: Range) -> Measured:
        return self._records(taken).measured

    def _records(self, taken: Range) -> KeptRecords:
        """What was read before, while that is of the same range."""
        wanted = kafka_range_of(taken)
        shape = replace(self.shape, left_out=frozenset(), keys=None, newest_instant="")
        before = self.kept.records
        if before is not None and (before.taken, before.shape) == (wanted, shape):
            return before
        if before is not None:
            before.release()
        self.kept.records = KeptRecords.read(self.declared, self.session, wanted, shape)
        return self.kept.records


def _span_length(taken: KafkaRange, slots: int) -> int:
    """How many offsets a task reads: about as many bytes each time, but so that no slot is idle."""
    size_bytes = taken.size_bytes
    affordable = _SPAN_OFFSETS_UNKNOWN
    if size_bytes:
        affordable = _SPAN_BYTES * taken.length // size_bytes
    return max(_SPAN_OFFSETS_MIN, min(affordable, -(-taken.length // slots)))
