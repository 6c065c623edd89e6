"""Calls of Hive's metastore in Thrift's binary protocol, for those without the extra `hive`.

Arguments are texts and lists of texts, which is all that reading takes. An answer is decoded by
what it says of itself: structures and maps become dicts, by number and by text. Of a hostile one no
more is decoded than `Transport` counts, nor deeper than `DEPTH_MAX`.

Source: Apache Thrift, "Thrift Binary protocol encoding"; Hive's `hive_metastore.thrift`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tideline.errors import StorageUnavailableError, UnsupportedTableError
from tideline.hive.transport import Transport, check_text
from tideline.trust.foreign_words import quoted

Structure: TypeAlias = dict[int, Any]
"""A structure's fields by their numbers."""

DEPTH_MAX: Final = 64
UNKNOWN_METHOD: Final = 1
"""The kind of Thrift's error that says so."""
_VERSION: Final = 0x80010000
_CALL, _REPLY, _EXCEPTION = 1, 2, 3
_STOP, _I32, _TEXT, _STRUCT, _MAP, _SET, _LIST = 0, 8, 11, 12, 13, 14, 15
_FIXED: Final = {2: "!b", 3: "!b", 4: "!d", 6: "!h", _I32: "!i", 10: "!q"}
_UUID: Final = 16
_SUCCESS: Final = 0


@dataclass(frozen=True, slots=True)
class Raised:
    """An error that a call declares: its number there, and its message."""

    number: int
    message: str


def ask(transport: Transport, method: str, *arguments: str | Sequence[str]) -> Any:
    """What a call answers; `Raised` for an error that it declares, None where it has no answer.

    Raises StorageUnavailableError, and UnsupportedTableError for an answer beyond the limits and a
    server that has no such call.
    """
    transport.write(_request(method, arguments))
    transport.flush()
    kind, name = _head(transport)
    answer: Structure = _value(transport, _STRUCT, 0)
    if kind == _EXCEPTION:
        words = quoted(answer.get(1, "no words"))
        if answer.get(2) == UNKNOWN_METHOD:
            raise no_such_call(words)
        raise StorageUnavailableError(f"the metastore fails: {words}")
    if kind != _REPLY or name != method:
        raise _unreadable("it is for another call")
    if _SUCCESS in answer or not answer:
        return answer.get(_SUCCESS)
    number, error = next(iter(answer.items()))
    message = error.get(1, "") if isinstance(error, dict) else ""
    return Raised(number, quoted(message))


def no_such_call(words: str) -> UnsupportedTableError:
    """The error for a server that does not have a call."""
    message = (
        "the metastore lacks a call of Hive 2.3, with which Tideline is tested, as Hive 4.0.1 and "
        "later do: register the table in another metastore, or have it serve Iceberg's REST "
        "protocol (type: rest)"
    )
    return UnsupportedTableError(message, value=words)


def texts(found: Any) -> list[str]:
    """A list of texts. Raises StorageUnavailableError for anything else."""
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise _unreadable("it is no list of names")
    return found


def structures(found: Any) -> list[Structure]:
    """A list of structures. Raises as `texts`."""
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise _unreadable("it is no list of tables")
    return found


def _request(method: str, arguments: Sequence[str | Sequence[str]]) -> bytes:
    parts = [struct.pack("!I", _VERSION | _CALL), _packed(method), struct.pack("!i", 0)]
    for number, argument in enumerate(arguments, 1):
        if isinstance(argument, str):
            parts += [struct.pack("!bh", _TEXT, number), _packed(argument)]
        else:
            parts += [struct.pack("!bhbi", _LIST, number, _TEXT, len(argument))]
            parts += map(_packed, argument)
    return b"".join([*parts, bytes([_STOP])])


def _packed(text: str) -> bytes:
    data = text.encode()
    return struct.pack("!i", len(data)) + data


def _head(transport: Transport) -> tuple[int, str]:
    (version,) = struct.unpack("!I", transport.readAll(4))
    if version & 0xFFFF0000 != _VERSION:
        raise _unreadable("it is of another version of Thrift's protocol")
    name = _text(transport)
    transport.readAll(4)
    return version & 0xFF, name


def _value(transport: Transport, kind: int, depth: int) -> Any:
    if depth > DEPTH_MAX:
        raise _unreadable(f"it has more than {DEPTH_MAX} levels")
    if kind in _FIXED:
        code = _FIXED[kind]
        return struct.unpack(code, transport.readAll(struct.calcsize(code)))[0]
    if kind == _TEXT:
        return _text(transport)
    if kind == _UUID:
        return transport.readAll(16)
    if kind == _STRUCT:
        return _structure(transport, depth)
    if kind in (_LIST, _SET):
        (element,) = transport.readAll(1)
        return [_value(transport, element, depth + 1) for _ in range(_count(transport, 1))]
    if kind == _MAP:
        key, element = transport.readAll(2)
        pairs = (
            (_value(transport, key, depth + 1), _value(transport, element, depth + 1))
            for _ in range(_count(transport, 2))
        )
        return {name: value for name, value in pairs if isinstance(name, str)}
    raise _unreadable("it has a value of no known type")


def _structure(transport: Transport, depth: int) -> Structure:
    found: Structure = {}
    while (kind := transport.readAll(1)[0]) != _STOP:
        (number,) = struct.unpack("!h", transport.readAll(2))
        transport.count(1)
        found[number] = _value(transport, kind, depth + 1)
    return found


def _text(transport: Transport) -> str:
    (size_bytes,) = struct.unpack("!i", transport.readAll(4))
    check_text(size_bytes)
    return transport.readAll(size_bytes).decode("utf-8", "replace")


def _count(transport: Transport, values_each: int) -> int:
    (count,) = struct.unpack("!i", transport.readAll(4))
    if count < 0:
        raise _unreadable("a length below zero")
    transport.count(count * values_each)
    return int(count)


def _unreadable(why: str) -> StorageUnavailableError:
    return StorageUnavailableError(f"the metastore's answer cannot be read: {why}")
