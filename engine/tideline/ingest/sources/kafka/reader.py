"""Topics where their records are read: by this process, into Arrow, or by Spark's executors.

Records of equal keys are in one partition, so of two records of a key the later one has the higher
offset (`batch`). Ranges of a size are read on Spark, by the same offsets (`on_spark`). Bad rows are
kept in the set-aside folder, or fail the ingest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tideline.bad_input import BadRow
from tideline.errors import ConfigError
from tideline.ingest.sources.kafka.batch import RecordBatch
from tideline.ingest.sources.kafka.broker import read_records, require_same_topics
from tideline.ingest.sources.kafka.declared import DeclaredKafka
from tideline.ingest.sources.kafka.offsets import kafka_range_of
from tideline.ingest.sources.kafka.read_engine import ReadEngine
from tideline.ingest.sources.kafka.records import TopicPartition
from tideline.ingest.sources.kafka.schema_registry import Registry
from tideline.ingest.sources.kafka.values import ValueReader
from tideline.ingest.sources.set_aside import keep_bad_rows, refused_part
from tideline.ingest.sources.source import (
    ForSpark,
    Position,
    Range,
    Rows,
    Settled,
    Shape,
    SparkRows,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tideline.ingest.sources.kafka.on_spark import KeptRecords


@dataclass(slots=True)
class Kept:
    """What Spark has read of the range that is being taken in."""

    records: KeptRecords | None = None


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """See `tideline.ingest.sources.source`."""

    declared: DeclaredKafka
    kept: Kept = field(default_factory=Kept, compare=False)

    def why_spark(self) -> str | None:
        return None

    def read(self, taken: Range, shape: Shape, bytes_max: int) -> Rows | ForSpark:
        """The rows, deletes marked, and the records that are none."""
        wanted = kafka_range_of(taken)
        registry = Registry(self.declared.registry, wanted.schemas)
        reader = ValueReader(self.declared, shape, registry)
        reader.check()
        if wanted.on_spark:
            return ForSpark("a range of this size is read on Spark")
        batch = RecordBatch(self.declared, shape, reader)
        epochs: dict[TopicPartition, int] = {}
        for records in read_records(self.declared, wanted, epochs=epochs):
            batch.add(records)
            if batch.size_bytes > bytes_max:
                return self._too_large(bytes_max)
        require_same_topics(self.declared, wanted, epochs)
        rows = batch.rows()
        read = replace(wanted.ended_in(epochs), schemas=registry.used())
        return replace(rows, taken=replace(read, size_bytes=rows.size_bytes))

    def _too_large(self, bytes_max: int) -> ForSpark:
        """Raises ConfigError where only this process may read."""
        what = f"the records of one commit have more than {bytes_max:,} bytes"
        if self.declared.engine is not ReadEngine.IN_PROCESS:
            return ForSpark(what)
        raise ConfigError(
            f"{what}, which is what this process has memory for: give source.maxBytesPerCommit, "
            "or lower source.maxRecordsPerCommit; with source.engine: Auto Spark reads them",
            path=self.declared.uri,
        )

    def on_spark(self, session: SparkSession, shape: Shape, reading: Any) -> SparkRows:  # noqa: ARG002
        # Ranges that this process reads need no Spark.
        from tideline.ingest.sources.kafka.on_spark import KafkaOnSpark

        return KafkaOnSpark(self.declared, session, shape, self.kept)

    def release(self) -> None:
        if self.kept.records is not None:
            self.kept.records.release()
            self.kept.records = None

    def set_part_aside(self, taken: Range, name: str, reason: str, now_ms: int) -> bool:  # noqa: ARG002
        """A partition is never left out: its later records would be taken in before its earlier
        ones."""
        raise refused_part(name, reason, "records", self.declared.uri)

    def set_rows_aside(self, taken: Range, name: str, rows: Sequence[BadRow]) -> bool:
        """One object for the records of a span: writing it again writes the same."""
        if self.declared.set_aside is None:
            raise ConfigError(
                f"{name} has records that cannot be taken in, the first at offset {rows[0].row:,}: "
                f"{rows[0].reason}; source.setAside says where such records are kept",
                path=self.declared.uri,
            )
        span = kafka_range_of(taken).span(name)
        path = f"{span.partition}/{span.first:020d}-{span.end:020d}.jsonl"
        kept = (
            {
                "topic": span.partition.topic,
                "partition": span.partition.number,
                "offset": row.row,
                "column": row.column or None,
                "reason": row.reason,
                "record": row.record,
            }
            for row in rows
        )
        keep_bad_rows(self.declared.set_aside, path, kept)
        return True

    def settle(self, position: Position, progress: Callable[[str], None]) -> Settled:  # noqa: ARG002
        return Settled()
