"""Messages of Postgres's protocol: what a client writes, and what it reads of a server's."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tideline.ingest.sources.wire.field_reader import FieldReader, WireError

_BOOL = 16
_INTEGERS = (20, 21, 23, 26, 28)
"""Numbers of types: int8, int2, int4, oid, xid."""
_VERSION, _TLS = 196_608, 80_877_103
TLS_REQUEST = struct.pack("!ii", 8, _TLS)


class ServerError(Exception):
    """What a server refuses, with its code."""

    def __init__(self, sqlstate: str, words: str) -> None:
        self.sqlstate = sqlstate
        super().__init__(words)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an answer: the number of its type."""

    type_oid: int


def startup(**parameters: str) -> bytes:
    """The first message, which has no kind."""
    pairs = b"".join(text(name) + text(value) for name, value in parameters.items())
    body = struct.pack("!i", _VERSION) + pairs + b"\0"
    return struct.pack("!i", len(body) + 4) + body


def message(kind: bytes, body: bytes = b"") -> bytes:
    """One of this kind."""
    return kind + struct.pack("!i", len(body) + 4) + body


def text(value: str) -> bytes:
    """As the protocol has it, ended by a zero byte."""
    return value.encode() + b"\0"


def statement(query: str, given: Sequence[Any]) -> bytes:
    """The messages that carry out one statement; parameters and results are texts."""
    values = b"".join(_parameter(value) for value in given)
    bind = text("") + text("") + struct.pack("!hh", 0, len(given)) + values + struct.pack("!h", 0)
    return b"".join(
        (
            message(b"P", text("") + text(query) + struct.pack("!h", 0)),
            message(b"B", bind),
            message(b"D", b"P" + text("")),
            message(b"E", text("") + struct.pack("!i", 0)),
            message(b"S"),
        )
    )


def _parameter(value: Any) -> bytes:
    if value is None:
        return struct.pack("!i", -1)
    encoded = (f"\\x{value.hex()}" if isinstance(value, bytes) else str(value)).encode()
    return struct.pack("!i", len(encoded)) + encoded


def read_columns(body: bytes) -> list[Column]:
    """Those of a RowDescription. Raises WireError."""
    fields, columns = Fields(body), []
    for _ in range(fields.int16()):
        fields.text()
        _, _, type_oid, _, _, form = struct.unpack("!ihihih", fields.take(18))
        if form != 0:
            raise WireError("a column is not written as text")
        columns.append(Column(type_oid))
    return columns


def read_row(body: bytes, columns: Sequence[Column]) -> tuple[Any, ...]:
    """The values of a DataRow. Raises WireError."""
    fields = Fields(body)
    if fields.int16() != len(columns):
        raise WireError("a row has other columns than the answer")
    return tuple(_value(fields, column) for column in columns)


def _value(fields: Fields, column: Column) -> Any:
    length = fields.int32()
    if length == -1:
        return None
    try:
        written = fields.take(length).decode()
        if column.type_oid == _BOOL:
            return {"t": True, "f": False}[written]
        if column.type_oid not in _INTEGERS:
            return written
        number = int(written)
        if not -(1 << 63) <= number < 1 << 63:
            raise ValueError("more than eight bytes")
        return number
    except (ValueError, KeyError) as error:
        raise WireError("a value is not as its type is written") from error


def read_error(body: bytes) -> ServerError:
    """That of an ErrorResponse. Raises WireError."""
    parts: dict[str, str] = {}
    for part in body.split(b"\0"):
        words = part.decode(errors="replace")
        parts.setdefault(words[:1], words[1:])
    return ServerError(parts.get("C", "")[:5], parts.get("M", "no reason"))


class Fields(FieldReader):
    """Those of the body of a message."""

    __slots__ = ()

    def text(self) -> bytes:
        """Up to a zero byte."""
        end = self.body.find(b"\0", self.at)
        if end < 0:
            raise WireError("a message is cut off")
        found = self.take(end - self.at)
        self.at += 1
        return found
