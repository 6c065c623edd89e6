"""Records of partitions as rows of a table: those of a range, or of a part of one.

1. Values become rows by their format (`values`). A record without a value, a tombstone, deletes
   what its key names: an object with the columns of the record key, or the value of the only one.
2. A record that is neither, or lacks a column of the key or the order, is a bad row, known by its
   partition and offset.
3. Rows arrive in the order of their offsets, which is the order of records of a key; those of one
   partition before those of the next. So what is read in parts, by several processes, arrives as
   it does in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tideline.bad_input import BadInput, BadRow
from tideline.errors import ConfigError
from tideline.hudi.write.batch_rules import ARRIVAL, DELETED_FLAG
from tideline.ingest.sources.kafka.change_events import TruncateError
from tideline.ingest.sources.kafka.declared import DeclaredKafka, RecordField, ValueFormat
from tideline.ingest.sources.kafka.decoded import Decoded, NoRowError
from tideline.ingest.sources.kafka.number_keys import IS_NUMBER, are_numbers, may_be_number
from tideline.ingest.sources.kafka.records import Records, TopicPartition
from tideline.ingest.sources.kafka.schema_id import IdHeader
from tideline.ingest.sources.kafka.tombstones import without_deleted
from tideline.ingest.sources.kafka.values import ValueReader
from tideline.ingest.sources.source import Rows, Shape

_NO_DELETES = "the operation does not delete"
_SHOWN_BYTES_MAX = 10_000
_Places = npt.NDArray[np.int64]
_TYPES = {
    RecordField.TOPIC: pa.string(),
    RecordField.PARTITION: pa.int32(),
    RecordField.OFFSET: pa.int64(),
    RecordField.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    RecordField.KEY: pa.string(),
    RecordField.HEADERS: pa.map_(pa.string(), pa.string()),
}


@dataclass(slots=True)
class RecordBatch:
    """Records, read for a shape; `rows` gives what they are. Records and rows are known by the
    places of records in the batch."""

    declared: DeclaredKafka
    shape: Shape
    reader: ValueReader
    records: Records = field(default_factory=Records)
    bad: dict[str, list[BadRow]] = field(default_factory=dict)
    noted: set[int] = field(default_factory=set)
    """Records that are bad, each once, however many rows it has."""
    size_bytes: int = 0

    def add(self, records: Records) -> None:
        self.size_bytes += records.size_bytes
        self.records.extend(records)

    def rows(self) -> Rows:
        values = self.records.values
        given = self._with_readable_headers()
        tombstones = [place for place in given if values[place] is None]
        if tombstones:
            given = [place for place in given if values[place] is not None]
        given, texts = self._with_schemas(given, values, IdHeader.VALUE)
        places = _places(given)
        try:
            found = self.reader.values(texts)
        except TruncateError as error:
            place = places[error.number]
            raise ConfigError(
                f"{self.records.partitions[place]} has at offset {self.records.offsets[place]:,} "
                "that the source table was emptied: delete the table's rows, or keep them, and set "
                "source.onTruncate: Ignore",
                path=self.declared.uri,
            ) from error
        tables = [self._placed(places, found)]
        named: Sequence[int] = self._that_delete(tombstones)
        if named:
            named = self._without_numbers(named, places, found)
            named, texts = self._with_schemas(named, self.records.keys, IdHeader.KEY)
            keys = self.reader.keys(texts, found.rows.schema)
            all_deleted = replace(keys, deletes=frozenset(range(len(keys.numbers))))
            tables.append(self._placed(_places(named), all_deleted))
        table = pa.concat_tables(tables, promote_options="default")
        if not pc.any(table.column(DELETED_FLAG)).as_py():
            table = table.drop_columns([DELETED_FLAG])
        else:
            table = without_deleted(table, self.shape.record_key, self.shape.ordering_columns)
        rows = {name: tuple(bad) for name, bad in self.bad.items()}
        return Rows(table, BadInput(rows=rows), len(self.records), self.size_bytes)

    def _with_readable_headers(self) -> Sequence[int]:
        """The records that have some, or whose headers nobody asks for."""
        headers = self.records.headers
        places = range(len(self.records))
        if None not in headers:
            return places
        for place in places:
            if headers[place] is None:
                self._note(place, "", "the name of a header is no text")
        return [place for place in places if headers[place] is not None]

    def _with_schemas(
        self, places: Sequence[int], column: Sequence[bytes | None], header: IdHeader
    ) -> tuple[Sequence[int], list[bytes]]:
        """The values at these places, their schemas before them, and the places of those whose
        headers make sense."""
        if not self.declared.value.needs_registry or not any(self.records.headers):
            return places, [column[place] or b"" for place in places]
        good: list[int] = []
        texts: list[bytes] = []
        for place in places:
            try:
                headers = self.records.headers[place] or ()
                texts.append(header.before(column[place] or b"", headers))
            except NoRowError as error:
                self._note(place, "", str(error))
            else:
                good.append(place)
        return good, texts

    def _that_delete(self, tombstones: Sequence[int]) -> list[int]:
        """Those of these whose keys name rows."""
        if not self.reader.reads_keys:
            return []
        named = []
        for place in tombstones:
            if self.records.keys[place] is None:
                self._note(place, "", "the record has neither a key nor a value")
            elif not self.shape.can_delete:
                self._note(place, "", f"the record has no value, and {_NO_DELETES}")
            else:
                named.append(place)
        return named

    def _without_numbers(
        self, named: Sequence[int], read: _Places, found: Decoded
    ) -> Sequence[int]:
        """Those whose keys are no numbers as bytes, by what was read of values."""
        keys, key = self.records.keys, self.shape.record_key
        doubtful = {place for place in named if may_be_number(keys[place])}
        is_avro = self.declared.value is ValueFormat.AVRO
        if not doubtful or not is_avro or len(key) != 1 or key[0] not in found.rows.schema.names:
            return named
        beside = (keys[place] for place in read[_places(found.numbers)].tolist())
        if not are_numbers(beside, found.rows.column(key[0])):
            return named
        for place in sorted(doubtful):
            self._note(place, "", IS_NUMBER)
        return [place for place in named if place not in doubtful]

    def _placed(self, read: _Places, found: Decoded) -> pa.Table:
        """Rows with what is known of their records, without those that lack a key or an order.
        `read` are the places of the records by their numbers."""
        for number, reason in found.faults.items():
            self._note(read[number], "", reason)
        places: _Places = read[_places(found.numbers)]
        flags = np.zeros(len(places), bool)
        flags[list(found.deletes)] = True
        # Rows may have no column of their own.
        table = pa.table({ARRIVAL: pa.array(self._arrivals(places))})
        for item, column in zip(found.rows.schema, found.rows.columns, strict=True):
            table = table.append_column(item, column)
        for wanted in self.declared.record_fields:
            if not wanted.is_of_event:
                column = pa.array(_field(wanted, self.records, places.tolist()), _TYPES[wanted])
                table = table.append_column(wanted.value, column)
        table = table.append_column(DELETED_FLAG, pa.array(flags))
        if flags.any() and not self.shape.can_delete:
            for place in places[flags]:
                self._note(place, "", _NO_DELETES)
            table, places = table.filter(pa.array(~flags)), places[~flags]
        return self._with_values(self._unordered(table), places)

    def _arrivals(self, places: _Places) -> _Places:
        found: _Places = np.array(self.records.arrivals, np.int64)[places]
        return found

    def _unordered(self, table: pa.Table) -> pa.Table:
        """Deletes without an order of their own: the row before one has zeros in columns that the
        connector was not given, and what comes later in a partition is later."""
        events = {item.value for item in self.declared.record_fields}
        for name in set(self.shape.ordering_columns) - {*events, *self.shape.record_key}:
            place = table.schema.get_field_index(name)
            if place >= 0:
                nothing = pa.scalar(None, table.schema.field(place).type)
                kept = pc.if_else(table.column(DELETED_FLAG), nothing, table.column(place))
                table = table.set_column(place, name, kept)
        return table

    def _with_values(self, table: pa.Table, places: _Places) -> pa.Table:
        """The rows that have a value in each column of the key, and of the order where they do not
        delete; others are bad."""
        deletes = table.column(DELETED_FLAG).to_numpy()
        good = np.ones(table.num_rows, bool)
        for name in dict.fromkeys((*self.shape.record_key, *self.shape.ordering_columns)):
            if name not in table.schema.names or not table.column(name).null_count:
                continue
            lacking = good & pc.is_null(table.column(name)).to_numpy()
            if name not in self.shape.record_key:
                lacking &= ~deletes
            for place in places[lacking]:
                self._note(place, name, "there is no value")
            good &= ~lacking
        return table if good.all() else table.filter(pa.array(good))

    def _note(self, place: int, column: str, reason: str) -> None:
        if place in self.noted:
            return
        self.noted.add(place)
        records = self.records
        partition, offset = records.partitions[place], records.offsets[place]
        text = (records.values[place] or records.keys[place] or b"")[:_SHOWN_BYTES_MAX]
        row = BadRow(
            row=offset,
            column=column,
            reason=reason,
            record=text.decode("utf-8", "replace"),
            digest=_digest(partition, offset),
            unit="offset",
        )
        self.bad.setdefault(str(partition), []).append(row)


def _places(numbers: Sequence[int]) -> _Places:
    if isinstance(numbers, range):
        return np.arange(numbers.start, numbers.stop, numbers.step)
    return np.array(numbers, np.int64)


def _digest(partition: TopicPartition, offset: int) -> int:
    name = f"{partition}@{offset}"
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest())


def _field(wanted: RecordField, records: Records, places: Sequence[int]) -> list[Any]:
    """That of the records at `places`."""
    match wanted:
        case RecordField.TOPIC:
            return [records.partitions[place].topic for place in places]
        case RecordField.PARTITION:
            return [records.partitions[place].number for place in places]
        case RecordField.OFFSET:
            return [records.offsets[place] for place in places]
        case RecordField.TIMESTAMP:
            times_ms = (records.times_ms[place] for place in places)
            return [None if time_ms is None else time_ms * 1_000 for time_ms in times_ms]
        case RecordField.KEY:
            return [_text(records.keys[place]) for place in places]
        case RecordField.HEADERS:
            return [
                [(name, _text(value)) for name, value in records.headers[place] or ()]
                for place in places
            ]
        case _:
            raise ValueError(f"{wanted.value} is of change events")


def _text(given: bytes | None) -> str | None:
    return None if given is None else given.decode("utf-8", "replace")
