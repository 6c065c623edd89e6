"""The forms of changes of rows in JSON: what Maxwell and what Canal write.

| | Maxwell | Canal |
|---|---|---|
| `type` | insert, bootstrap-insert, update, delete | INSERT, UPDATE, DELETE, TRUNCATE |
| passed over | other bootstrap-, table-, database- | isDdl, QUERY |
| `data` | the row, after an update, before a delete | a list of such rows |
| `old` | of an update: what changed, as it was | a list of such, of as many rows |
| values | numbers, texts, bytes in base64 | texts, bytes as ISO 8859-1 |
| time | `ts`, seconds | `es`, milliseconds, of whole seconds |
| order | `position` of the binlog, `xoffset` in the transaction | none: `id` begins at 1 again |

Times without a zone are taken for UTC. The last row of a transaction has `commit`, and no
`xoffset`.

Source: Maxwell's documentation of its data format; Canal's FlatMessage and LogEventConvert.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tideline.hudi.table.stored_value import cast_array
from tideline.ingest.sources.kafka.binlog_sequence import ROW_MAX, binlog_sequence
from tideline.ingest.sources.kafka.declared import RecordField

_NAMES = {"database": pa.string(), "table": pa.string(), "type": pa.string()}
_TEXT = pa.string()
_S_MS = 1_000


class Change(IntEnum):
    """What an event does to rows."""

    UPSERT = 0
    UPDATE = 1
    DELETE = 2
    TRUNCATE = 3


@dataclass(frozen=True, slots=True)
class RowChangeForm:
    """How values of one writer are read; `head` has what is read of each value before its rows."""

    head: pa.Schema
    changes: Mapping[str, Change]
    passed: tuple[str, ...]
    are_lists: bool
    are_texts: bool
    octets: Callable[[str], bytes]
    of_head: Mapping[RecordField, Callable[[pa.Table], pa.Array]]

    def is_statement(self, heads: pa.Table) -> npt.NDArray[np.bool_]:
        """Which are of statements that change tables, and have no rows."""
        found = np.zeros(heads.num_rows, bool)
        if "isDdl" in heads.schema.names:
            found |= pc.fill_null(heads.column("isDdl"), False).to_numpy()
        return found

    def passes(self, written: str) -> bool:
        """Whether events of this type have nothing for a table."""
        return written.startswith(self.passed)

    def why_not(self, kind: pa.DataType) -> str | None:
        """Why columns of this type have no values in this form."""
        is_nested = pa.types.is_nested(kind)
        if pa.types.is_map(kind) or (is_nested and self.are_texts):
            return f"changes of this form have no {kind}"
        return None

    def rows_of(self, columns: pa.Schema) -> pa.DataType:
        """The type of rows as they are written."""
        fields = [pa.field(item.name, self._written(item.type)) for item in columns]
        row = pa.struct(fields)
        return pa.list_(row) if self.are_lists else row

    def _written(self, kind: pa.DataType) -> pa.DataType:
        return _TEXT if self.are_texts or pa.types.is_binary(kind) else kind

    def typed(self, column: pa.Array, wanted: pa.DataType) -> pa.Array:
        """Values as they are written as the column's. Raises ArrowInvalid, ValueError."""
        if pa.types.is_binary(wanted):
            packed = column.dictionary_encode()
            octets = [self.octets(item) for item in packed.dictionary.to_pylist()]
            return pc.take(pa.array(octets, wanted), packed.indices)
        if pa.types.is_timestamp(wanted) and wanted.tz and pa.types.is_string(column.type):
            local = column.cast(pa.timestamp(wanted.unit))
            return pc.assume_timezone(local, "UTC").cast(wanted)
        return cast_array(column, wanted)

    def field(self, field: RecordField, heads: pa.Table) -> pa.ChunkedArray:
        """That of each event. Raises KeyError where this form has none."""
        return self.of_head[field](heads)


def _of_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _of_latin(text: str) -> bytes:
    return text.encode("iso-8859-1")


def _column(name: str, factor: int = 1) -> Callable[[pa.Table], pa.ChunkedArray]:
    def found(heads: pa.Table) -> pa.ChunkedArray:
        column = heads.column(name)
        return column if factor == 1 else pc.multiply(column, factor)

    return found


def _maxwell_sequence(heads: pa.Table) -> pa.Array:
    """Null where the position is missing, or none."""
    written = heads.column("position").combine_chunks()
    parts = pc.extract_regex(written, r"^(?P<file>.*[0-9]):(?P<offset>[0-9]{1,18})$")
    file, offset = parts.field("file"), parts.field("offset")
    # Where nothing matches the parts are null with their struct.
    known = parts.is_valid()
    file, offset = (pc.if_else(known, part, pa.scalar(None, _TEXT)) for part in (file, offset))
    commits = pc.fill_null(heads.column("commit").combine_chunks(), False)
    last = pc.and_(commits, heads.column("xoffset").combine_chunks().is_null())
    row = pc.if_else(last, ROW_MAX, heads.column("xoffset").combine_chunks())
    return binlog_sequence(file, offset.cast(pa.int64()), row)


MAXWELL = RowChangeForm(
    head=pa.schema(
        {
            **_NAMES,
            "ts": pa.int64(),
            "xid": pa.int64(),
            "xoffset": pa.int64(),
            "commit": pa.bool_(),
            "position": _TEXT,
        }
    ),
    changes={
        "insert": Change.UPSERT,
        "bootstrap-insert": Change.UPSERT,
        "update": Change.UPDATE,
        "delete": Change.DELETE,
    },
    passed=("bootstrap-", "table-", "database-"),
    are_lists=False,
    are_texts=False,
    octets=_of_base64,
    of_head={
        RecordField.OPERATION: _column("type"),
        RecordField.ORIGIN_TIME: _column("ts", _S_MS),
        RecordField.TRANSACTION: _column("xid"),
        RecordField.SEQUENCE: _maxwell_sequence,
    },
)

CANAL = RowChangeForm(
    head=pa.schema({**_NAMES, "isDdl": pa.bool_(), "es": pa.int64()}),
    changes={
        "INSERT": Change.UPSERT,
        "UPDATE": Change.UPDATE,
        "DELETE": Change.DELETE,
        "TRUNCATE": Change.TRUNCATE,
    },
    passed=("QUERY",),
    are_lists=True,
    are_texts=True,
    octets=_of_latin,
    of_head={
        RecordField.OPERATION: _column("type"),
        RecordField.ORIGIN_TIME: _column("es"),
    },
)
