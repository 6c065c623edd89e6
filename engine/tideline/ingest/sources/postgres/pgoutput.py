"""Messages of pgoutput, protocol 1, the plugin that every server has.

A change names a relation, whose columns an earlier message of the same reading had. Values are the
server's texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

Value = bytes | None


class Unchanged:
    """What stands for a value that is stored apart (TOAST) and was not changed."""


UNCHANGED = Unchanged()
Row = list[Value | Unchanged]

_FULL = ord("f")
_TEXT, _NULL = ord("t"), ord("n")
_NEW = ord("N")
_LENGTH = Struct(">I")
_COUNT = Struct(">H")
_BEGIN = Struct(">QqI")
_COMMIT = Struct(">BQQq")
_COLUMN_TYPE = Struct(">Ii")
_TRUNCATE = Struct(">IB")


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column; `is_identity` says whether old rows have it."""

    name: str
    type_oid: int
    is_identity: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as it is from here on. `is_full` says whether old rows are whole."""

    oid: int
    schema: str
    name: str
    is_full: bool
    columns: tuple[RelationColumn, ...]


class Begin(NamedTuple):
    """A transaction: where its commit is, and when that was."""

    lsn: int
    xid: int
    time_us: int = 0


class Commit(NamedTuple):
    """The end of a transaction, and where the log continues."""

    end_lsn: int


class Change(NamedTuple):
    """Without `new` a row was deleted. `old` is there where the log has the row of before, or the
    columns of its identity."""

    oid: int
    old: Row | None
    new: Row | None


class Truncate(NamedTuple):
    """Tables that were emptied."""

    oids: tuple[int, ...]


Message = Begin | Commit | Relation | Change | Truncate


def decode_message(data: bytes) -> Message | None:
    """What a message says; None for those that say nothing about rows. Raises ValueError."""
    match data[:1]:
        case b"I":
            (oid,) = _LENGTH.unpack_from(data, 1)
            return Change(oid, None, _row(data, 6)[0])
        case b"U" | b"D":
            return _change(data)
        case b"B":
            lsn, time_us, xid = _BEGIN.unpack_from(data, 1)
            return Begin(lsn, xid, time_us)
        case b"C":
            _, _, end, _ = _COMMIT.unpack_from(data, 1)
            return Commit(end)
        case b"R":
            return _relation(data)
        case b"T":
            count, _ = _TRUNCATE.unpack_from(data, 1)
            return Truncate(
                tuple(_LENGTH.unpack_from(data, 6 + 4 * number)[0] for number in range(count))
            )
        case b"Y" | b"O" | b"M":
            return None
        case other:
            raise ValueError(f"the log has a message of the kind {other!r}")


def _change(data: bytes) -> Change:
    (oid,) = _LENGTH.unpack_from(data, 1)
    at, old, new = 5, None, None
    while at < len(data):
        kind = data[at]
        row, at = _row(data, at + 1)
        if kind == _NEW:
            new = row
        else:
            old = row
    return Change(oid, old, new)


def _row(data: bytes, at: int) -> tuple[Row, int]:
    (count,) = _COUNT.unpack_from(data, at)
    at += 2
    row: Row = []
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind == _TEXT:
            start = at + 4
            at = start + _LENGTH.unpack_from(data, at)[0]
            row.append(data[start:at])
        elif kind == _NULL:
            row.append(None)
        else:
            row.append(UNCHANGED)
    return row, at


def _relation(data: bytes) -> Relation:
    (oid,) = _LENGTH.unpack_from(data, 1)
    schema, at = _text(data, 5)
    name, at = _text(data, at)
    is_full = data[at] == _FULL
    (count,) = _COUNT.unpack_from(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        column, at = _text(data, at + 1)
        type_oid, _ = _COLUMN_TYPE.unpack_from(data, at)
        at += _COLUMN_TYPE.size
        columns.append(RelationColumn(column, type_oid, bool(flags & 1)))
    # The empty name is that of pg_catalog.
    return Relation(oid, schema or "pg_catalog", name, is_full, tuple(columns))


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1
