"""Change events in Debezium's envelope, as rows and deletes.

1. An event has an operation, the row before and after it, and where it was read. Create, update and
   a row of the first copy give the row after; a delete deletes the row before. Messages of a
   connector are passed over. A truncate has no rows: it stops the ingest, or is passed over by
   choice.
2. Types come with the events: in JSON by the schema beside each value, in Avro by the schema's own
   `connect.name`s. JSON without schemas has the types of the declared columns, as far as its values
   say what they mean.
3. A record without a value follows each delete for the sake of compaction, and is passed over.

Source: Debezium's documentation of its connectors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tideline.bounded.parsing import PARSER_FAULTS, parse_json
from tideline.errors import CorruptTableError
from tideline.formats.marked_values import marked_values
from tideline.ingest.sources.kafka.avro_rows import avro_rows, read_by_schema
from tideline.ingest.sources.kafka.binlog_sequence import binlog_sequence
from tideline.ingest.sources.kafka.connect_avro import avro_meaning
from tideline.ingest.sources.kafka.connect_types import ConnectType, meant
from tideline.ingest.sources.kafka.declared import UNAVAILABLE, RecordField
from tideline.ingest.sources.kafka.decoded import (
    Decoded,
    NoRowError,
    WantedColumns,
    joined,
    read_as_first,
    read_halves,
)
from tideline.ingest.sources.kafka.json_rows import TEXTS_OF_NUMBERS, json_rows, with_numbers
from tideline.ingest.sources.kafka.schema_registry import Registry

_OPERATION = "op"
_UPSERTS, _UPDATE = ("c", "u", "r"), "u"
_DELETE, _TRUNCATE, _MESSAGE = "d", "t", "m"
_SCHEMA, _PAYLOAD = b'{"schema":', b',"payload":'
_NAMES = frozenset((_OPERATION, "before", "after", "source"))


_SOURCE_FIELDS: Mapping[RecordField, tuple[tuple[str, pa.DataType], ...]] = {
    RecordField.OPERATION: (),
    RecordField.ORIGIN_TIME: (("ts_ms", pa.int64()),),
    RecordField.TRANSACTION: (("txId", pa.int64()),),
    RecordField.LSN: (("lsn", pa.int64()),),
    RecordField.SEQUENCE: (("file", pa.string()), ("pos", pa.int64()), ("row", pa.int32())),
}


_TEXTS = (RecordField.OPERATION, RecordField.SEQUENCE)


@dataclass(frozen=True, slots=True)
class Events:
    """How events become rows: their columns and the fields of the events among these.

    With `fills` an update may leave values out that the table has in the row before.
    """

    wanted: WantedColumns
    fields: tuple[RecordField, ...] = ()
    passes_truncates: bool = False
    fills: bool = False

    def read_json(self, values: Sequence[bytes]) -> Decoded:
        """Of values with or without their schemas."""
        return read_as_first(
            self.wanted, lambda known: replace(self, wanted=known)._read_json(values)
        )

    def read_avro(self, values: Sequence[bytes], registry: Registry) -> Decoded:
        """Of values behind the number of their schema."""
        return read_as_first(
            self.wanted, lambda known: replace(self, wanted=known)._read_avro(values, registry)
        )

    def _read_json(self, values: Sequence[bytes]) -> Decoded:
        groups: dict[bytes, _Group] = {}
        faults: dict[int, str] = {}
        _split(values, groups, faults)
        tables: list[pa.Table] = []
        numbers: list[int] = []
        for beside, group in groups.items():
            bad: dict[int, str] = {}
            tables += read_halves(group.payloads, self._json_reader(beside), bad)
            numbers += [place for at, place in enumerate(group.places) if at not in bad]
            faults |= {group.places[at]: reason for at, reason in bad.items()}
        return self._decoded(tables, numbers, faults)

    def _read_avro(self, values: Sequence[bytes], registry: Registry) -> Decoded:
        def read(datums: Sequence[bytes], schema: str) -> pa.Table:
            found = avro_rows(datums, schema)
            if not _NAMES.issubset(found.schema.names):
                raise NoRowError("the schema of the value is not that of a change event")
            kind = avro_meaning(schema)
            columns = {name: found.column(name).combine_chunks() for name in _NAMES}
            for name in ("before", "after"):
                columns[name] = meant(columns[name], kind.field(name) or ConnectType("struct"))
            return self._rows(columns)

        found = read_by_schema(values, registry, read, self.wanted)
        tables = [found.rows] if found.numbers else []
        return self._decoded(tables, list(found.numbers), found.faults)

    def _empty(self) -> pa.Table:
        """No rows, in the columns that are known without any."""
        table = self.wanted.empty()
        for field in self.fields:
            kind = pa.string() if field in _TEXTS else pa.int64()
            table = table.append_column(field.value, pa.array([], kind))
        return table

    def _json_reader(self, beside: bytes) -> Callable[[Sequence[bytes]], pa.Table]:
        """Reads payloads that have this schema, or none."""

        def read(payloads: Sequence[bytes]) -> pa.Table:
            kind = self._row_type(beside)
            source = dict(item for field in self.fields for item in _SOURCE_FIELDS[field])
            schema = pa.schema(
                {
                    _OPERATION: pa.string(),
                    "before": kind.plain,
                    "after": kind.plain,
                    "source": pa.struct(list(source.items())),
                }
            )
            found = _with_all_numbers(payloads, schema)
            columns = {name: found.column(name).combine_chunks() for name in schema.names}
            for name in ("before", "after"):
                columns[name] = meant(columns[name], kind)
            return self._rows(columns)

        return read

    def _row_type(self, beside: bytes) -> ConnectType:
        if beside:
            try:
                schema = parse_json(beside, what="schema beside the value")
            except CorruptTableError as error:
                raise NoRowError(str(error)) from error
            after = ConnectType.of_json_schema(schema).field("after")
            if after is None:
                raise NoRowError("the schema beside the value is not that of a change event")
            return after
        schema = self.wanted.declared or self.wanted.stored
        if schema is None:
            raise NoRowError(
                "values without schemas need the columns: give source.schema, or have the "
                "connector write schemas"
            )
        return ConnectType.of_columns(schema)

    def _rows(self, columns: Mapping[str, pa.Array]) -> pa.Table:
        """The row of each event in the wanted columns, its operation, and whether it has a row."""
        operation = columns[_OPERATION]
        is_delete = pc.fill_null(pc.equal(operation, _DELETE), False)
        before, after = columns["before"], columns["after"]
        if before.type != after.type:
            raise NoRowError("the rows before and after an event are of different types")
        if not pa.types.is_struct(after.type):
            raise NoRowError(_NO_COLUMNS)
        row = pc.if_else(is_delete, before, after)
        has_row = row.is_valid()
        names = [item.name for item in row.type]
        table = self.wanted.of(pa.table(list(row.flatten()), names=names))
        for field in self.fields:
            table = table.append_column(field.value, _of_event(field, columns))
        return table.append_column(_OP, operation).append_column(_HAS_ROW, has_row)

    def _decoded(
        self, tables: list[pa.Table], numbers: list[int], faults: Mapping[int, str]
    ) -> Decoded:
        if not tables:
            return Decoded(self._empty(), [], faults=faults)
        rows = joined(tables)
        operations, has_row = rows.column(_OP), rows.column(_HAS_ROW)
        is_row = _is_any(operations, *_UPSERTS, _DELETE) & _flags(has_row)
        reasons = dict(faults)
        for place in np.flatnonzero(~is_row):
            reason = self._why_no_row(operations[place].as_py(), numbers[place])
            if reason is not None:
                reasons[numbers[place]] = reason
        may_lack = _is_any(operations, _DELETE)
        if self.fills:
            may_lack |= _is_any(operations, _UPDATE)
        for name in rows.schema.names:
            # Tables fill up texts and bytes alone.
            is_list = pa.types.is_list(rows.schema.field(name).type)
            allowed = _is_any(operations, _DELETE) if is_list else may_lack
            for lacking in _unavailable(rows.column(name)):
                if is_row[lacking] and not allowed[lacking]:
                    why = _NO_ROW_BEFORE if self.fills else _NOT_KEPT
                    why = _NO_LISTS if self.fills and is_list else why
                    reasons[numbers[lacking]] = f"column {name}: {_NOT_AVAILABLE}{why}"
                    is_row[lacking] = False
        kept = np.flatnonzero(is_row)
        deletes = np.flatnonzero(_is_any(operations, _DELETE)[kept])
        rows = rows.drop_columns([_OP, _HAS_ROW])
        if len(kept) < rows.num_rows:
            rows = rows.take(kept)
        found = [numbers[place] for place in kept]
        return Decoded(rows, found, frozenset(deletes.tolist()), reasons)

    def _why_no_row(self, operation: str | None, number: int) -> str | None:
        """Why an event is a bad record; None where it is passed over."""
        if operation == _TRUNCATE and not self.passes_truncates:
            raise TruncateError(number)
        if operation in (_TRUNCATE, _MESSAGE):
            return None
        if operation == _DELETE:
            return _NO_BEFORE
        if operation in _UPSERTS:
            return _NO_AFTER
        return f"no operation of a change event: {operation!r}"


class TruncateError(Exception):
    """The value of this number empties the table in the source."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


_OP, _HAS_ROW = "__op", "__has_row"
_NO_COLUMNS = (
    "the rows of the event have no columns: MongoDB's connector writes documents as text; have it "
    "write what its transformation ExtractNewDocumentState makes, with source.value: json or avro"
)
_NO_AFTER = "the event has no row after it"
_NO_BEFORE = (
    "the delete has no row before it: give the source table a primary key, or REPLICA IDENTITY FULL"
)


_NOT_AVAILABLE = "the value was not available to the connector, "
_NOT_KEPT = (
    "and the one before is not kept: that takes upserts, and of a Hudi table "
    "hoodie.table.partial.update.mode: FILL_UNAVAILABLE; or give the source table REPLICA IDENTITY "
    "FULL"
)
_NO_LISTS = "and tables do not keep lists: give the source table REPLICA IDENTITY FULL"
_NO_ROW_BEFORE = (
    "and there is no row before with this key: give the source table REPLICA IDENTITY FULL"
)


@dataclass(slots=True)
class _Group:
    """Payloads with one schema, and the places of their values."""

    payloads: list[bytes]
    places: list[int]


def _with_all_numbers(payloads: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    """Rows of payloads, where connectors have some floating numbers as texts."""
    try:
        return json_rows(payloads, schema)
    except NoRowError:
        numbered = [
            with_numbers(payload, schema)
            if any(text in payload for text in TEXTS_OF_NUMBERS)
            else payload
            for payload in payloads
        ]
        if numbered == list(payloads):
            raise
        return json_rows(numbered, schema)


def _is_any(operations: pa.ChunkedArray, *wanted: str) -> npt.NDArray[np.bool_]:
    return _flags(pc.is_in(operations, pa.array(wanted)))


def _flags(column: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = column.to_numpy()
    return found.copy()


def _split(values: Sequence[bytes], groups: dict[bytes, _Group], faults: dict[int, str]) -> None:
    """Values by the schema beside them; those without have an empty one.

    A connector writes the same bytes before each payload as long as the schema is the same.
    """
    heads: dict[bytes, bytes] = {}
    head = b""
    for place, value in enumerate(values):
        if not value.startswith(_SCHEMA):
            beside, payload = b"", value
        else:
            if not (head and value.startswith(head)):
                head = next((known for known in heads if value.startswith(known)), b"")
            if head:
                beside, payload = heads[head], value[len(head) : -1]
            else:
                try:
                    beside, payload, head = _taken_apart(value)
                except PARSER_FAULTS:
                    faults[place] = "the value is no JSON object"
                    continue
                if head:
                    heads[head] = beside
        if payload == b"null":
            continue
        group = groups.setdefault(beside, _Group([], []))
        group.payloads.append(payload)
        group.places.append(place)


def _taken_apart(value: bytes) -> tuple[bytes, bytes, bytes]:
    """The schema beside a value, its payload, and the bytes before that; none where the value is
    not written as converters do."""
    text = value.decode()
    found = json.loads(text)
    schema, payload = found["schema"], found["payload"]
    written = json.dumps(payload, ensure_ascii=False).encode()
    beside = b"" if schema is None else json.dumps(schema).encode()
    head, middle, last = value.partition(_PAYLOAD)
    if middle and _is(head[len(_SCHEMA) :], schema) and _is(last[:-1], payload):
        return beside, last[:-1], head + middle
    return beside, written, b""


def _is(text: bytes, value: Any) -> bool:
    try:
        return bool(json.loads(text) == value)
    except ValueError:
        return False


def _of_event(field: RecordField, columns: Mapping[str, Any]) -> pa.Array:
    source = columns["source"]
    try:
        parts = [
            source.field(name).cast(kind) if _has(source, name) else pa.nulls(len(source), kind)
            for name, kind in _SOURCE_FIELDS[field]
        ]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise NoRowError(f"the source of the event, for {field.value}: {error}") from error
    if field is RecordField.OPERATION:
        return columns[_OPERATION]
    if field is not RecordField.SEQUENCE:
        return pc.if_else(source.is_valid(), parts[0], pa.scalar(None, parts[0].type))
    return binlog_sequence(*parts)


def _has(source: pa.StructArray, name: str) -> bool:
    return bool(source.type.get_field_index(name) >= 0)


def _unavailable(column: pa.ChunkedArray) -> list[int]:
    """The places of values that a connector did not have."""
    kind = column.type
    if pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
        marked = pc.equal(pc.list_flatten(column), UNAVAILABLE)
        parents = pc.filter(pc.list_parent_indices(column), marked)
        return sorted(set(parents.to_pylist()))
    found: list[int] = np.flatnonzero(marked_values(column, UNAVAILABLE)).tolist()
    return found
