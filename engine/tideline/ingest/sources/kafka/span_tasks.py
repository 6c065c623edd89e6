"""What runs inside Spark's Python workers for a range of topics: a span of offsets in, rows out.

1. A task reads its spans by assigned offsets, with the client, the credentials and the decoders
   that a process alone uses. A task that is repeated reads the same.
2. Records become rows in blocks, so that a task holds one block, whatever its span has. A block is
   an Arrow stream with what is known of it beside it: columns, counts, records that are bad.
3. `UnpackRows` gives the rows of blocks in the columns that all blocks have together.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tideline.bad_input import BadRow
from tideline.errors import InvalidDataError
from tideline.hudi.write.batch_rules import ARRIVAL, DELETED_FLAG
from tideline.ingest.sources.kafka.batch import RecordBatch
from tideline.ingest.sources.kafka.broker import read_records, require_same_topics
from tideline.ingest.sources.kafka.declared import DeclaredKafka
from tideline.ingest.sources.kafka.known_schemas import KnownSchemas
from tideline.ingest.sources.kafka.records import KafkaRange, Span, TopicPartition
from tideline.ingest.sources.kafka.schema_registry import Registry
from tideline.ingest.sources.kafka.values import ValueReader
from tideline.ingest.sources.source import Rows, Shape
from tideline.spark.task_errors import carried_errors

BLOCK_SCHEMA = pa.schema(
    [
        ("arrival", pa.int64()),
        ("rows", pa.binary()),
        ("columns", pa.binary()),
        ("records", pa.int64()),
        ("size_bytes", pa.int64()),
        ("bad", pa.binary()),
        ("digests", pa.binary()),
        ("ended", pa.binary()),
    ]
)
_BLOCK_BYTES = 16 * 1024 * 1024
BLOCK_RECORDS = 50_000


@dataclass(frozen=True, slots=True)
class SpanEnd:
    """A span that was read to its end, and the schemas by which its records were read."""

    span: Span
    schemas: KnownSchemas


@dataclass(frozen=True, slots=True)
class ReadSpans:
    """The task function that reads the spans whose numbers it is given; picklable."""

    declared: DeclaredKafka
    shape: Shape
    spans: tuple[Span, ...]
    shifts: Mapping[TopicPartition, int]
    schemas: KnownSchemas
    block_records: int = BLOCK_RECORDS

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried_errors():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from self._read(self.spans[number])

    def _read(self, span: Span) -> Iterator[pa.RecordBatch]:
        wanted = KafkaRange((span,))
        registry = Registry(self.declared.registry, self.schemas)
        epochs: dict[TopicPartition, int] = {}
        batch = self._batch(registry)
        for found in read_records(self.declared, wanted, self.shifts, epochs):
            for records in found.divided(self.block_records):
                batch.add(records)
                if batch.size_bytes >= _BLOCK_BYTES or len(batch.records) >= self.block_records:
                    yield self._block(batch, span)
                    batch = self._batch(registry)
        # Before the last block, for a task whose blocks were all taken has succeeded.
        require_same_topics(self.declared, wanted, epochs)
        last = batch.rows()
        (ended,) = wanted.ended_in(epochs).spans
        yield self._block(batch, span, last, SpanEnd(ended, registry.used()))

    def _batch(self, registry: Registry) -> RecordBatch:
        reader = ValueReader(self.declared, self.shape, registry)
        return RecordBatch(self.declared, self.shape, reader)

    def _block(
        self,
        batch: RecordBatch,
        span: Span,
        rows: Rows | None = None,
        ended: SpanEnd | None = None,
    ) -> pa.RecordBatch:
        found = batch.rows() if rows is None else rows
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, found.table.schema) as stream:
            stream.write_table(found.table)
        bad = [row for rows in found.bad.rows.values() for row in rows]
        first = span.first + self.shifts[span.partition]
        values = (
            pc.min(found.table.column(ARRIVAL)).as_py() if found.table.num_rows else first,
            sink.getvalue().to_pybytes(),
            found.table.schema.serialize().to_pybytes(),
            len(batch.records),
            batch.size_bytes,
            pickle.dumps((str(span.partition), bad)) if bad else None,
            pickle.dumps([row.digest for row in bad]) if bad else None,
            None if ended is None else pickle.dumps(ended),
        )
        arrays = [
            pa.array([value], item.type) for value, item in zip(values, BLOCK_SCHEMA, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=BLOCK_SCHEMA)


@dataclass(frozen=True, slots=True)
class UnpackRows:
    """The task function that gives the rows of blocks as `shown`, whose columns have the names and
    the order of `schema`; picklable."""

    schema: pa.Schema
    shown: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for block in batch.column(0):
                with pa.ipc.open_stream(block.as_buffer()) as stream:
                    yield from self._rows(stream.read_all()).to_batches()

    def _rows(self, found: pa.Table) -> pa.Table:
        whole = pa.concat_tables(
            [self.schema.empty_table(), found], promote_options="permissive"
        ).select(self.schema.names)
        place = whole.schema.get_field_index(DELETED_FLAG)
        if place >= 0:
            flags = pc.fill_null(whole.column(place), False)
            whole = whole.set_column(place, DELETED_FLAG, flags)
        return whole.cast(self.shown)


def range_once_read(taken: KafkaRange, ended: Iterable[bytes]) -> KafkaRange:
    """A range with the ends of its spans, of the last block of each."""
    epochs: dict[TopicPartition, int] = {}
    registry, digests = "", dict[int, str]()
    ends = {span.partition: span.end for span in taken.spans}
    for content in ended:
        found: SpanEnd = pickle.loads(content)
        registry = found.schemas.registry
        digests |= found.schemas.digests
        span = found.span
        if span.end == ends[span.partition] and span.end_epoch is not None:
            epochs[span.partition] = span.end_epoch
    schemas = KnownSchemas(registry, tuple(sorted(digests.items())))
    return replace(taken.ended_in(epochs), schemas=schemas)


def columns_of_blocks(columns: Iterable[bytes]) -> pa.Schema:
    """Those of all blocks together. Raises InvalidDataError where they do not go together."""
    found = [pa.ipc.read_schema(pa.py_buffer(item)) for item in columns]
    try:
        return pa.unify_schemas(found, promote_options="permissive")
    except pa.ArrowTypeError as error:
        raise InvalidDataError(f"values differ in types: {error}; give source.schema") from error


def bad_of_block(packed: bytes) -> tuple[str, list[BadRow]]:
    """The partition and the bad records of a block."""
    found: tuple[str, list[BadRow]] = pickle.loads(packed)
    return found


def digests_of_block(packed: bytes) -> list[int]:
    found: list[int] = pickle.loads(packed)
    return found
