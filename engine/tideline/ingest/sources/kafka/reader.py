"""Topics where their records are read: by this process, into Arrow.

1. The records of a range, in the order of each partition. Equal keys are in one partition, so of
   two records of a key the later one comes later.
2. Values are JSON objects with the declared columns. A record without a value, a tombstone, deletes
   what its key names: a JSON object with the columns of the record key, or the value of the only
   one.
3. A record that is neither, or lacks a column of the key or the order, is a bad row, known by its
   partition and offset. Bad rows are kept in the set-aside folder, or fail the ingest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tideline.bad_input import BadInput, BadRow
from tideline.errors import ConfigError
from tideline.hudi.table.meta_column import is_meta_column
from tideline.hudi.write.batch_rules import ARRIVAL, DELETED_FLAG
from tideline.ingest.arrow_schema import arrow_schema
from tideline.ingest.locate import locate
from tideline.ingest.sources.kafka.broker import read_records, require_same_topics
from tideline.ingest.sources.kafka.declared import DeclaredKafka, RecordField
from tideline.ingest.sources.kafka.json_rows import read_json_values
from tideline.ingest.sources.kafka.offsets import kafka_range_of
from tideline.ingest.sources.kafka.records import Record
from tideline.ingest.sources.kafka.tombstones import without_deleted
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

_SHOWN_BYTES_MAX = 10_000
_TYPES = {
    RecordField.TOPIC: pa.string(),
    RecordField.PARTITION: pa.int32(),
    RecordField.OFFSET: pa.int64(),
    RecordField.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    RecordField.KEY: pa.string(),
    RecordField.HEADERS: pa.map_(pa.string(), pa.string()),
}


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """See `tideline.ingest.sources.source`."""

    declared: DeclaredKafka

    def why_spark(self) -> str | None:
        return None

    def read(self, taken: Range, shape: Shape, bytes_max: int) -> Rows | ForSpark:
        """The rows, deletes marked, and the records that are none."""
        batch = _Batch(self.declared, shape, _columns_of(self.declared, shape))
        wanted = kafka_range_of(taken)
        for record in read_records(self.declared, wanted, bytes_max):
            batch.add(record)
        require_same_topics(self.declared, wanted)
        return batch.rows()

    def on_spark(self, session: SparkSession, shape: Shape, reading: Any) -> SparkRows:  # noqa: ARG002
        raise ConfigError("records of topics are read without Spark")

    def set_part_aside(self, taken: Range, name: str, reason: str, now_ms: int) -> bool:  # noqa: ARG002
        """A partition is never left out: its later records would be taken in before its earlier
        ones."""
        raise ConfigError(
            f"{name} cannot be taken in: {reason}; set single records aside with onBadRow: "
            "Quarantine and source.setAside",
            path=self.declared.uri,
        )

    def set_rows_aside(self, taken: Range, name: str, rows: Sequence[BadRow]) -> bool:
        """One object for the records of a span: writing it again writes the same."""
        if self.declared.set_aside is None:
            raise ConfigError(
                f"{name} has records that cannot be taken in, the first at offset {rows[0].row:,}: "
                f"{rows[0].reason}; source.setAside says where such records are kept",
                path=self.declared.uri,
            )
        span = kafka_range_of(taken).span(name)
        lines = [
            json.dumps(
                {
                    "topic": span.partition.topic,
                    "partition": span.partition.number,
                    "offset": row.row,
                    "column": row.column or None,
                    "reason": row.reason,
                    "record": row.record,
                },
                ensure_ascii=False,
            )
            for row in rows
        ]
        path = f"{span.partition}/{span.first:020d}-{span.end:020d}.jsonl"
        locate(self.declared.set_aside).open().put(path, "\n".join([*lines, ""]).encode())
        return True

    def settle(self, position: Position, progress: Callable[[str], None]) -> Settled:  # noqa: ARG002
        return Settled()


@dataclass(slots=True)
class _Kept:
    """Records of one kind: their JSON objects, and when each was met."""

    texts: list[bytes] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    order: list[int] = field(default_factory=list)

    def add(self, text: bytes, record: Record, order: int) -> None:
        self.texts.append(text)
        self.records.append(record)
        self.order.append(order)


@dataclass(slots=True)
class _Batch:
    """The records of a range, read for a shape."""

    declared: DeclaredKafka
    shape: Shape
    schema: pa.Schema
    values: _Kept = field(default_factory=_Kept)
    tombstones: _Kept = field(default_factory=_Kept)
    bad: dict[str, list[BadRow]] = field(default_factory=dict)
    records: int = 0
    size_bytes: int = 0

    @property
    def keys(self) -> pa.Schema:
        """The columns that the key of a record names."""
        return pa.schema([item for item in self.schema if item.name in self.shape.record_key])

    def add(self, record: Record) -> None:
        order, value, key = self.records, record.value, record.key
        self.records += 1
        self.size_bytes += len(value or b"") + len(key or b"")
        if value is not None:
            self.values.add(value, record, order)
        elif key is None:
            self._note(record, "", "the record has neither a key nor a value")
        elif not self.shape.can_delete:
            self._note(record, "", "the record has no value, and the operation does not delete")
        else:
            self.tombstones.add(_key_object(key, self.keys), record, order)

    def rows(self) -> Rows:
        required = self._required(deletes=False)
        upserts = self._read(self.values, self.schema, required, is_delete=False)
        required = self._required(deletes=True)
        deletes = self._read(self.tombstones, self.keys, required, is_delete=True)
        table = pa.concat_tables([upserts, deletes], promote_options="default")
        if not self.tombstones.texts:
            table = table.drop_columns([DELETED_FLAG])
        else:
            table = without_deleted(table, self.shape.record_key, self.shape.ordering_columns)
        rows = {name: tuple(found) for name, found in self.bad.items()}
        return Rows(table, BadInput(rows=rows), self.records, self.size_bytes)

    def _required(self, *, deletes: bool) -> tuple[str, ...]:
        ordering = () if deletes else self.shape.ordering_columns
        return (*self.shape.record_key, *ordering)

    def _read(
        self, kept: _Kept, schema: pa.Schema, required: tuple[str, ...], *, is_delete: bool
    ) -> pa.Table:
        table, faults = read_json_values(kept.texts, schema)
        for number, reason in faults.items():
            self._note(kept.records[number], "", reason)
        good = [number for number in range(len(kept.records)) if number not in faults]
        table, good = self._with_values(table, good, kept, required)
        arrival = pa.array([kept.order[number] for number in good], pa.int64())
        table = table.append_column(ARRIVAL, arrival)
        records = [kept.records[number] for number in good]
        for wanted_field in self.declared.record_fields:
            values = [_field(wanted_field, record) for record in records]
            column = pa.array(values, _TYPES[wanted_field])
            table = table.append_column(wanted_field.value, column)
        flag = pa.array([is_delete] * table.num_rows, pa.bool_())
        return table.append_column(DELETED_FLAG, flag)

    def _with_values(
        self, table: pa.Table, numbers: list[int], kept: _Kept, required: tuple[str, ...]
    ) -> tuple[pa.Table, list[int]]:
        """The rows that have a value in these columns; others are bad."""
        for name in required:
            if name not in table.schema.names or not table.column(name).null_count:
                continue
            lacking = pc.is_null(table.column(name))
            for place in pc.indices_nonzero(lacking).to_pylist():
                self._note(kept.records[numbers[place]], name, "there is no value")
            present = pc.indices_nonzero(pc.invert(lacking))
            table = table.take(present)
            numbers = [numbers[place] for place in present.to_pylist()]
        return table, numbers

    def _note(self, record: Record, column: str, reason: str) -> None:
        text = (record.value or record.key or b"")[:_SHOWN_BYTES_MAX]
        row = BadRow(
            row=record.offset,
            column=column,
            reason=reason,
            record=text.decode("utf-8", "replace"),
            digest=_digest(record),
            unit="offset",
        )
        self.bad.setdefault(str(record.partition), []).append(row)


def _columns_of(declared: DeclaredKafka, shape: Shape) -> pa.Schema:
    """Columns that values have: those declared, else the table's. Raises ConfigError."""
    schema = arrow_schema(declared.schema) if declared.schema else shape.schema
    if schema is None:
        message = "values of records have no types: give source.schema or spec.schema"
        raise ConfigError(message, path=declared.uri)
    ours = {item.value for item in RecordField}
    columns = [item for item in schema if item.name not in ours and not is_meta_column(item.name)]
    for column in columns:
        if pa.types.is_map(column.type) or pa.types.is_binary(column.type):
            message = f"column {column.name}: JSON values have no {column.type}"
            raise ConfigError(message, path=declared.uri)
    return pa.schema(columns)


def _key_object(key: bytes, columns: pa.Schema) -> bytes:
    """The JSON object that a record's key stands for; what stands for none stays.

    Of a single column it is the value, as JSON or, of a text, as it is.
    """
    if key.lstrip()[:1] == b"{" or len(columns) != 1:
        return key
    try:
        value = json.loads(key)
    except ValueError:
        value = key.decode("utf-8", "replace")
    if pa.types.is_string(columns.field(0).type) and not isinstance(value, str):
        value = key.decode("utf-8", "replace")
    return json.dumps({columns.field(0).name: value}).encode()


def _digest(record: Record) -> int:
    name = f"{record.partition}@{record.offset}"
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest())


def _field(wanted: RecordField, record: Record) -> Any:
    match wanted:
        case RecordField.TOPIC:
            return record.partition.topic
        case RecordField.PARTITION:
            return record.partition.number
        case RecordField.OFFSET:
            return record.offset
        case RecordField.TIMESTAMP:
            return None if record.timestamp_ms is None else record.timestamp_ms * 1_000
        case RecordField.KEY:
            return _text(record.key)
        case RecordField.HEADERS:
            return [(name, _text(value)) for name, value in record.headers()]


def _text(given: bytes | None) -> str | None:
    return None if given is None else given.decode("utf-8", "replace")
