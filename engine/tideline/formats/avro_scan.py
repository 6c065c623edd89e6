"""Avro records read in part: wanted fields are decoded, the others are stepped over.

fastavro decodes an unwanted field as carefully as any other. Where most bytes of a record are
unwanted, as the metrics in Iceberg's manifests are, stepping over them is several times as fast,
even in Python:

1. A schema is compiled once into one function per type, which takes the bytes and a position.
2. An unwanted run of numbers is one match of a regular expression, for a number is any bytes with
   the high bit set and one without.
3. Bytes that end too early raise IndexError or ValueError; the caller checks where it arrived.

Logical types are not applied: a date is its number of days, a decimal its bytes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
Skip: TypeAlias = Callable[[bytes, int], int]
Step = TypeVar("Step", Callable[[bytes, int], tuple[Any, int]], Callable[[bytes, int], int])

_VARINT = rb"[\x80-\xff]*[\x00-\x7f]"
_FIXED_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
# How the bytes of a zigzag number look.
_FIRST_BRANCH, _SECOND_BRANCH = 0, 2
_NEGATIVE_OR_LONG = 0x81
_SHIFT_MAX = 63
_INTEGERS = ("int", "long", "enum")
_SIZED = ("bytes", "string")


def compile_reader(
    schema: Mapping[str, Any], wanted: Callable[[Mapping[str, Any]], bool]
) -> Callable[[bytes, int, int], Iterator[tuple[dict[str, Any], int]]]:
    """Reads `count` records from a position: each with the position behind it.

    Fields, at any depth, that are not `wanted` are missing from the records. Raises ValueError
    for a schema that is none.
    """
    read = _Compiler(wanted).reader(schema)

    def records(body: bytes, position: int, count: int) -> Iterator[tuple[dict[str, Any], int]]:
        for _ in range(count):
            record, position = read(body, position)
            yield record, position

    return records


def read_long(body: bytes, position: int) -> tuple[int, int]:
    """A number in zigzag variable length form, and the position behind it.

    Raises IndexError when cut short and ValueError for more than ten bytes.
    """
    byte = body[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value, shift = byte & 0x7F, 7
    while True:
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > _SHIFT_MAX:
            raise ValueError("a number of more than 64 bits")


class _Compiler:
    """Functions for types; named types are known once they were met."""

    def __init__(self, wanted: Callable[[Mapping[str, Any]], bool]) -> None:
        self._wanted = wanted
        self._named: dict[str, Mapping[str, Any]] = {}

    def reader(self, schema: Any) -> Read:
        name, full = self._resolved(schema)
        if name == "union":
            return _union([self.reader(branch) for branch in full])
        if name == "record":
            return self._record_reader(full)
        if name == "array":
            return _array_reader(self.reader(full["items"]))
        if name == "map":
            return _map_reader(self.reader(full["values"]))
        if name == "enum":
            return _enum_reader(full["symbols"])
        if name == "fixed":
            return _slice_reader(int(full["size"]))
        return _PRIMITIVES[name]

    def skipper(self, schema: Any) -> Skip:
        name, full = self._resolved(schema)
        if name == "union":
            return _union([self.skipper(branch) for branch in full])
        if name in ("array", "map"):
            return self._items_skipper(name, full)
        if name == "record":
            return _each_skipper([self.skipper(field["type"]) for field in full["fields"]])
        if name in _INTEGERS:
            return lambda body, position: read_long(body, position)[1]
        if name in _SIZED:
            return _skip_sized
        size = int(full["size"]) if name == "fixed" else _FIXED_SIZES[name]
        return lambda _, position: position + size

    def _record_reader(self, schema: Mapping[str, Any]) -> Read:
        steps: list[tuple[str | None, Any]] = []
        for field in schema["fields"]:
            if self._wanted(field):
                steps.append((field["name"], self.reader(field["type"])))
            else:
                steps.append((None, self.skipper(field["type"])))

        def read(body: bytes, position: int) -> tuple[dict[str, Any], int]:
            record = {}
            for name, step in steps:
                if name is None:
                    position = step(body, position)
                else:
                    record[name], position = step(body, position)
            return record, position

        return read

    def _items_skipper(self, name: str, schema: Mapping[str, Any]) -> Skip:
        item = schema["items"] if name == "array" else schema["values"]
        numbers = self._numbers(item)
        if name == "array" and numbers:
            return _numbers_skipper(numbers)
        if name == "array" and self._is_number_and_sized(item):
            return _skip_pairs
        function = self.skipper(item)
        return _blocks_skipper(
            function if name == "array" else _each_skipper([_skip_sized, function])
        )

    def _numbers(self, schema: Any) -> int:
        """How many numbers it always is, 0 when it is anything else."""
        name, full = self._resolved(schema)
        if name == "record":
            parts = [self._numbers(field["type"]) for field in full["fields"]]
            return sum(parts) if all(parts) else 0
        return int(name in _INTEGERS)

    def _is_number_and_sized(self, schema: Any) -> bool:
        """Whether it is a record of a number and of bytes with a length, as an entry of a map
        from numbers is in Iceberg."""
        name, full = self._resolved(schema)
        if name != "record" or len(full["fields"]) != 2:
            return False
        first, second = (self._resolved(field["type"])[0] for field in full["fields"])
        return first in _INTEGERS and second in _SIZED

    def _resolved(self, schema: Any) -> tuple[str, Any]:
        """The kind of type, and its whole definition."""
        if isinstance(schema, str):
            schema = self._named.get(schema, schema)
        if isinstance(schema, list):
            return "union", schema
        if not isinstance(schema, Mapping):
            if schema in _PRIMITIVES:
                return schema, {}
            raise ValueError(f"no Avro type: {schema}")
        inner = schema["type"]
        if not isinstance(inner, str):
            return self._resolved(inner)
        if "name" in schema:
            space = schema.get("namespace")
            self._named[schema["name"]] = schema
            if space:
                self._named[f"{space}.{schema['name']}"] = schema
        return self._resolved(inner) if inner in self._named else (inner, schema)


def read_bytes(body: bytes, position: int) -> tuple[bytes, int]:
    """Bytes behind their length, and the position behind them. Raises ValueError when cut short."""
    length, position = read_long(body, position)
    end = position + length
    if length < 0 or end > len(body):
        raise ValueError("a length reaches past the end")
    return body[position:end], end


def _read_string(body: bytes, position: int) -> tuple[str, int]:
    value, position = read_bytes(body, position)
    return value.decode(), position


def _skip_sized(body: bytes, position: int) -> int:
    length, position = read_long(body, position)
    if length < 0:
        raise ValueError("a length is negative")
    return position + length


def _slice_reader(size: int) -> Read:
    def read(body: bytes, position: int) -> tuple[bytes, int]:
        if position + size > len(body):
            raise ValueError("a value reaches past the end")
        return body[position : position + size], position + size

    return read


def _number_reader(code: str) -> Read:
    unpack, size = struct.Struct(code).unpack_from, struct.calcsize(code)
    return lambda body, position: (unpack(body, position)[0], position + size)


_PRIMITIVES: dict[str, Read] = {
    "null": lambda _, position: (None, position),
    "boolean": lambda body, position: (body[position] != 0, position + 1),
    "int": read_long,
    "long": read_long,
    "float": _number_reader("<f"),
    "double": _number_reader("<d"),
    "bytes": read_bytes,
    "string": _read_string,
}


def _enum_reader(symbols: Sequence[str]) -> Read:
    def read(body: bytes, position: int) -> tuple[str, int]:
        index, position = read_long(body, position)
        return symbols[index], position

    return read


def _union(branches: Sequence[Step]) -> Step:
    """Reads, or skips, a value of a union."""

    def step(body: bytes, position: int) -> Any:
        byte = body[position]
        if byte == _FIRST_BRANCH:
            return branches[0](body, position + 1)
        if byte == _SECOND_BRANCH:
            return branches[1](body, position + 1)
        index, position = read_long(body, position)
        return branches[index](body, position)

    return step


def _array_reader(item: Read) -> Read:
    def read(body: bytes, position: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        while True:
            count, position = _block_count(body, position)
            if not count:
                return items, position
            for _ in range(count):
                value, position = item(body, position)
                items.append(value)

    return read


def _map_reader(value: Read) -> Read:
    def entry(body: bytes, position: int) -> tuple[tuple[str, Any], int]:
        key, position = _read_string(body, position)
        found, position = value(body, position)
        return (key, found), position

    read_entries = _array_reader(entry)

    def read(body: bytes, position: int) -> tuple[dict[str, Any], int]:
        entries, position = read_entries(body, position)
        return dict(entries), position

    return read


def _each_skipper(parts: Sequence[Skip]) -> Skip:
    def skip(body: bytes, position: int) -> int:
        for part in parts:
            position = part(body, position)
        return position

    return skip


def _blocks_skipper(item: Skip) -> Skip:
    def skip(body: bytes, position: int) -> int:
        while True:
            count, position = _block_count(body, position)
            if not count:
                return position
            for _ in range(count):
                position = item(body, position)

    return skip


def _numbers_skipper(numbers: int) -> Skip:
    """Items that are nothing but `numbers` numbers each."""

    def skip(body: bytes, position: int) -> int:
        while True:
            byte = body[position]
            if not byte:
                return position + 1
            if byte & _NEGATIVE_OR_LONG:
                count, position = _block_count(body, position)
            else:
                count, position = byte >> 1, position + 1
            found = _run_of_numbers(count * numbers).match(body, position)
            if found is None:
                raise ValueError("numbers end too early")
            position = found.end()

    return skip


def _skip_pairs(body: bytes, position: int) -> int:
    """Items of a number and of bytes, without a call for each."""
    while True:
        count, position = _block_count(body, position)
        if not count:
            return position
        for _ in range(count):
            while body[position] > 0x7F:
                position += 1
            position += 1
            length = body[position]
            if length > 0x7F or length & 1:
                position = _skip_sized(body, position)
            else:
                position += 1 + (length >> 1)


@lru_cache(maxsize=1024)
def _run_of_numbers(count: int) -> re.Pattern[bytes]:
    return re.compile(rb"(?:" + _VARINT + rb"){%d}" % count, re.DOTALL)


def _block_count(body: bytes, position: int) -> tuple[int, int]:
    """How many items follow, 0 at the end; a block that states its size has a negative count."""
    count, position = read_long(body, position)
    if count < 0:
        _, position = read_long(body, position)
        count = -count
    if count > len(body):
        raise ValueError("a block has more items than bytes")
    return count, position
