"""How the values and keys of a source's records become rows: a reader for each format of values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tideline.errors import ConfigError
from tideline.hudi.table.meta_column import is_meta_column
from tideline.ingest.arrow_schema import arrow_schema
from tideline.ingest.sources.kafka.avro_rows import read_avro_keys, read_avro_values
from tideline.ingest.sources.kafka.change_events import Events
from tideline.ingest.sources.kafka.declared import (
    UNAVAILABLE,
    DeclaredKafka,
    RecordField,
    ValueFormat,
)
from tideline.ingest.sources.kafka.decoded import Decoded, WantedColumns
from tideline.ingest.sources.kafka.json_rows import read_json_values
from tideline.ingest.sources.kafka.row_change_forms import CANAL, MAXWELL
from tideline.ingest.sources.kafka.row_changes import RowChanges
from tideline.ingest.sources.kafka.schema_id import has_schema
from tideline.ingest.sources.kafka.schema_registry import Registry
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.source import Shape


@dataclass(frozen=True, slots=True)
class ValueReader:
    """Reads the records of one source for a shape."""

    declared: DeclaredKafka
    shape: Shape
    registry: Registry

    @property
    def reads_keys(self) -> bool:
        """Whether a record without a value deletes what its key names."""
        return not self.declared.value.is_change_event

    def check(self) -> None:
        """Raises ConfigError where values cannot become rows of these columns."""
        if self.declared.value is ValueFormat.JSON:
            self._json_columns()
        if self.declared.value is ValueFormat.RAW:
            self._raw_column()
        if self.declared.value.names_tables:
            self._changes()

    def values(self, texts: Sequence[bytes]) -> Decoded:
        """Raises ConfigError, StorageUnavailableError; TruncateError for one that is not passed
        over."""
        declared = self.declared
        match declared.value:
            case ValueFormat.JSON:
                return _good(*read_json_values(texts, self._json_columns()), len(texts))
            case ValueFormat.RAW:
                column = self._raw_column()
                return _raw(texts, column)
            case ValueFormat.AVRO:
                return read_avro_values(texts, self.registry, self._wanted())
            case ValueFormat.DEBEZIUM_JSON:
                return self._events().read_json(texts)
            case ValueFormat.DEBEZIUM_AVRO:
                return self._events().read_avro(texts, self.registry)
            case ValueFormat.MAXWELL_JSON | ValueFormat.CANAL_JSON:
                return self._changes().read(texts)

    def keys(self, texts: Sequence[bytes], beside: pa.Schema) -> Decoded:
        """What the keys of records without a value name, `beside` rows of values in these columns.
        Raises as `values` does."""
        columns = self._key_columns(beside)
        packed = [place for place, text in enumerate(texts) if self._is_packed(text)]
        plain = [place for place, text in enumerate(texts) if not self._is_packed(text)]
        objects = [_key_object(texts[place], columns) for place in plain]
        found = _good(*read_json_values(objects, columns), len(objects)).at(plain)
        if not packed:
            return found
        keys = [texts[place] for place in packed]
        wanted = WantedColumns(columns)
        return found.with_those(read_avro_keys(keys, self.registry, wanted).at(packed))

    def _is_packed(self, key: bytes) -> bool:
        return self.declared.value is ValueFormat.AVRO and has_schema(key)

    def _events(self) -> Events:
        fills = self.shape.unavailable == UNAVAILABLE
        return Events(self._wanted(), self._event_fields, self._passes_truncates, fills)

    def _changes(self) -> RowChanges:
        declared = self.declared
        form = MAXWELL if declared.value is ValueFormat.MAXWELL_JSON else CANAL
        columns = self._columns()
        for column in columns:
            reason = form.why_not(column.type)
            if reason is not None:
                raise ConfigError(f"column {column.name}: {reason}", path=declared.uri)
        key, fields = self.shape.record_key, self._event_fields
        return RowChanges(form, declared.table, columns, key, fields, self._passes_truncates)

    @property
    def _event_fields(self) -> tuple[RecordField, ...]:
        return tuple(item for item in self.declared.record_fields if item.is_of_event)

    @property
    def _passes_truncates(self) -> bool:
        return self.declared.on_truncate is OnTruncate.IGNORE

    def _wanted(self) -> WantedColumns:
        return WantedColumns(self._declared_schema, self.shape.schema, self.declared.reserved)

    @property
    def _declared_schema(self) -> pa.Schema | None:
        return arrow_schema(self.declared.schema) if self.declared.schema else None

    @property
    def _schema(self) -> pa.Schema | None:
        """The columns declared, else the table's."""
        return self._declared_schema or self.shape.schema

    def _columns(self) -> pa.Schema:
        """Those declared, else the table's. Raises ConfigError."""
        declared = self.declared
        schema = self._schema
        if schema is None:
            message = "values of records have no types: give source.schema or spec.schema"
            raise ConfigError(message, path=declared.uri)
        kept = [
            item
            for item in schema
            if item.name not in declared.reserved and not is_meta_column(item.name)
        ]
        return pa.schema(kept)

    def _json_columns(self) -> pa.Schema:
        columns = self._columns()
        for column in columns:
            if pa.types.is_map(column.type) or pa.types.is_binary(column.type):
                message = f"column {column.name}: JSON values have no {column.type}"
                raise ConfigError(message, path=self.declared.uri)
        return columns

    def _raw_column(self) -> pa.Field:
        columns = self._columns()
        if len(columns) == 1:
            kind = columns.field(0).type
            if pa.types.is_string(kind) or pa.types.is_binary(kind):
                return columns.field(0)
        message = "a raw value is one column of the type string or binary: give source.schema"
        raise ConfigError(message, path=self.declared.uri)

    def _key_columns(self, beside: pa.Schema) -> pa.Schema:
        """The columns that the key of a record names."""
        if self.declared.value is ValueFormat.RAW:
            return pa.schema([])
        schema = self._schema
        if schema is None:
            texts = pa.schema([pa.field(name, pa.string()) for name in self.shape.record_key])
            known = [item for item in beside if item.name in texts.names]
            schema = pa.schema(known) if len(known) == len(texts) else texts
        return pa.schema([item for item in schema if item.name in self.shape.record_key])


def _good(rows: pa.Table, faults: dict[int, str], count: int) -> Decoded:
    """The rows of all values that are not at fault."""
    numbers: Sequence[int] = range(count)
    if faults:
        numbers = [number for number in numbers if number not in faults]
    return Decoded(rows, numbers, faults=faults)


def _raw(texts: Sequence[bytes], column: pa.Field) -> Decoded:
    if pa.types.is_binary(column.type):
        values = pa.array(list(texts), column.type)
        return _good(pa.Table.from_arrays([values], schema=pa.schema([column])), {}, len(texts))
    faults: dict[int, str] = {}
    good: list[str] = []
    for number, text in enumerate(texts):
        try:
            good.append(text.decode())
        except UnicodeDecodeError:
            faults[number] = "the value is no text"
    table = pa.Table.from_arrays([pa.array(good, column.type)], schema=pa.schema([column]))
    return _good(table, faults, len(texts))


def _key_object(key: bytes, columns: pa.Schema) -> bytes:
    """The JSON object that a record's key stands for; what stands for none stays.

    Of a single column it is the value, as JSON or, of a text, as it is. Bytes that are no text are
    none: numbers as bytes would be read as other numbers.
    """
    if not len(columns):
        return b"{}"
    if key.lstrip()[:1] == b"{" or len(columns) != 1:
        return key
    column = columns.field(0)
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return key
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if pa.types.is_string(column.type) and not isinstance(value, str):
        value = text
    # A number has the digits that it is written with.
    written = json.dumps(value) if isinstance(value, str) else text
    return f"{{{json.dumps(column.name)}: {written}}}".encode()
