"""Thrift's compact protocol without definitions: structs by field number, nothing left out.

Every field is kept with the type it was stored as, also those that no version of parquet known here
has, so that what is decoded and encoded again is the same.

Source: the description of the protocol in Thrift's documentation (thrift-compact-protocol.md).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from tideline.bounded.parsing import faults_named
from tideline.bounded.read_limits import read_limits, too_many_values

_DEPTH_MAX = 64
"""Levels of values within values; a footer of parquet has six."""
_VARINT_BITS_MAX = 70
_LONG_SIZE = 15
_STOP = 0


class Kind(IntEnum):
    """How a value is stored; a boolean's value is its kind."""

    TRUE = 1
    FALSE = 2
    BYTE = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    MAP = 11
    STRUCT = 12
    UUID = 13


# As plain numbers: headers of pages are many, and an enum's are slow to compare with.
_SHORTEST_INTEGER, _LONGEST_INTEGER = int(Kind.I16), int(Kind.I64)
_TRUE, _BOOLEANS = int(Kind.TRUE), frozenset({int(Kind.TRUE), int(Kind.FALSE)})


@dataclass(slots=True)
class Values:
    """A list or a set of values of one kind."""

    kind: int
    items: list[Any]


@dataclass(slots=True)
class Pairs:
    """A map; both kinds are 0 when it is empty."""

    key_kind: int
    value_kind: int
    items: list[tuple[Any, Any]]


@dataclass(slots=True)
class Struct:
    """The fields of a struct: kind and value by number."""

    fields: dict[int, tuple[int, Any]] = field(default_factory=dict)

    def get(self, number: int) -> Any:
        """The value of a field, None when there is none."""
        found = self.fields.get(number)
        return None if found is None else found[1]

    def put(self, number: int, kind: Kind, value: Any) -> None:
        """Set a field."""
        self.fields[number] = (int(kind), value)

    def drop(self, number: int) -> None:
        """Remove a field, which need not be there."""
        self.fields.pop(number, None)

    def copy(self) -> Struct:
        """Another struct with the same values."""
        return Struct(dict(self.fields))


def decode_struct(body: bytes, *, path: object = None, at: int = 0) -> Struct:
    """The struct that begins at a position.

    Raises CorruptTableError naming `path` for bytes that are none, UnsupportedTableError when it
    has more values than are read from one object.
    """
    return decode_struct_at(body, at, path=path)[0]


def decode_struct_at(body: bytes, at: int, *, path: object = None) -> tuple[Struct, int]:
    """The struct that begins at a position, and where it ends. Raises as `decode_struct`."""
    with faults_named("a Thrift struct is truncated or broken", path=path):
        decoder = _Decoder(body, at, path)
        return decoder.struct(0), decoder.at


def encode_struct(value: Struct) -> bytes:
    """The bytes of a struct, its fields by number."""
    out = bytearray()
    _encode_struct(out, value)
    return bytes(out)


class _Decoder:
    def __init__(self, body: bytes, at: int, path: object) -> None:
        self._body = body
        self.at = at
        self._path = path
        self._values = 0
        self._values_max = read_limits().values_max

    def struct(self, depth: int) -> Struct:
        fields: dict[int, tuple[int, Any]] = {}
        number = 0
        while True:
            head = self._body[self.at]
            self.at += 1
            if head == _STOP:
                return Struct(fields)
            kind, delta = head & 0x0F, head >> 4
            number = number + delta if delta else _signed(self._varint())
            if number in fields:
                raise ValueError(f"field {number} twice")
            if _SHORTEST_INTEGER <= kind <= _LONGEST_INTEGER:
                self._count(1)
                fields[number] = (kind, _signed(self._varint()))
            elif kind in _BOOLEANS:
                fields[number] = (kind, kind == _TRUE)
            else:
                fields[number] = (kind, self._value(kind, depth))

    def _value(self, kind: int, depth: int) -> Any:
        self._count(1)
        if _SHORTEST_INTEGER <= kind <= _LONGEST_INTEGER:
            return _signed(self._varint())
        match kind:
            case Kind.BINARY:
                return self._taken(self._varint())
            case Kind.STRUCT:
                return self.struct(_deeper(depth))
            case Kind.LIST | Kind.SET:
                return self._list(_deeper(depth))
            case Kind.TRUE | Kind.FALSE:
                return self._byte() == Kind.TRUE
            case Kind.BYTE:
                return struct.unpack("b", self._taken(1))[0]
            case Kind.DOUBLE:
                # As bytes: no number changes on its way, whichever NaN it is.
                return self._taken(8)
            case Kind.MAP:
                return self._map(_deeper(depth))
            case Kind.UUID:
                return self._taken(16)
        raise ValueError(f"no kind of value has number {kind}")

    def _list(self, depth: int) -> Values:
        head = self._byte()
        kind, size = head & 0x0F, head >> 4
        if size == _LONG_SIZE:
            size = self._varint()
        self._check_size(size)
        return Values(kind, [self._value(kind, depth) for _ in range(size)])

    def _map(self, depth: int) -> Pairs:
        size = self._varint()
        self._check_size(size)
        if not size:
            return Pairs(0, 0, [])
        kinds = self._byte()
        key, value = kinds >> 4, kinds & 0x0F
        items = [(self._value(key, depth), self._value(value, depth)) for _ in range(size)]
        return Pairs(key, value, items)

    def _check_size(self, size: int) -> None:
        if size > len(self._body) - self.at:
            raise EOFError(f"{size} values in {len(self._body) - self.at} bytes")
        if self._values + size > self._values_max:
            self._count(size)

    def _count(self, values: int) -> None:
        self._values += values
        if self._values > self._values_max:
            raise too_many_values(self._values, self._values_max, path=self._path)

    def _byte(self) -> int:
        byte = self._body[self.at]
        self.at += 1
        return byte

    def _taken(self, length: int) -> bytes:
        end = self.at + length
        if end > len(self._body):
            raise EOFError(f"{length} bytes at {self.at} of {len(self._body)}")
        taken = self._body[self.at : end]
        self.at = end
        return taken

    def _varint(self) -> int:
        body, at = self._body, self.at
        byte = body[at]
        at += 1
        value, shift = byte & 0x7F, 7
        while byte & 0x80:
            if shift >= _VARINT_BITS_MAX:
                raise ValueError("a number has no end")
            byte = body[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
        self.at = at
        return value


def _deeper(depth: int) -> int:
    if depth >= _DEPTH_MAX:
        raise ValueError(f"values are nested more than {_DEPTH_MAX} levels deep")
    return depth + 1


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def _encode_struct(out: bytearray, value: Struct) -> None:
    last = 0
    for number, (kind, item) in sorted(value.fields.items()):
        stored = (Kind.TRUE if item else Kind.FALSE) if kind in _BOOLEANS else kind
        delta = number - last
        if 0 < delta <= 15:
            out.append(delta << 4 | stored)
        else:
            out.append(stored)
            _encode_varint(out, _unsigned(number))
        last = number
        if _SHORTEST_INTEGER <= kind <= _LONGEST_INTEGER:
            _encode_varint(out, _unsigned(item))
        elif kind not in _BOOLEANS:
            _encode_value(out, kind, item)
    out.append(_STOP)


def _encode_value(out: bytearray, kind: int, item: Any) -> None:
    if _SHORTEST_INTEGER <= kind <= _LONGEST_INTEGER:
        _encode_varint(out, _unsigned(item))
        return
    match kind:
        case Kind.BINARY:
            _encode_varint(out, len(item))
            out += item
        case Kind.STRUCT:
            _encode_struct(out, item)
        case Kind.LIST | Kind.SET:
            _encode_list(out, item)
        case Kind.MAP:
            _encode_varint(out, len(item.items))
            if item.items:
                out.append(item.key_kind << 4 | item.value_kind)
            for key, value in item.items:
                _encode_value(out, item.key_kind, key)
                _encode_value(out, item.value_kind, value)
        case Kind.TRUE | Kind.FALSE:
            out.append(Kind.TRUE if item else Kind.FALSE)
        case Kind.BYTE:
            out += struct.pack("b", item)
        case _:
            out += item


def _encode_list(out: bytearray, values: Values) -> None:
    size = len(values.items)
    if size < _LONG_SIZE:
        out.append(size << 4 | values.kind)
    else:
        out.append(_LONG_SIZE << 4 | values.kind)
        _encode_varint(out, size)
    for item in values.items:
        _encode_value(out, values.kind, item)


def _unsigned(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def _encode_varint(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
