"""Avro object containers as blocks of records, within limits.

1. The header: `Obj\\x01`, a map with `avro.schema` and `avro.codec`, a marker of 16 bytes.
2. The blocks: record count, byte count, compressed records, the marker again.
3. `check_schema` refuses what would make much of few bytes: types that contain themselves, types
   that expand without bound, arrays of items that take no bytes.
4. A block of more bytes than values are allowed is walked once, counting its values.

Source: the Avro specification, "Object Container Files".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tideline.bounded.parsing import decompress_bounded, faults_named, parse_json
from tideline.bounded.read_limits import read_limits, too_many_values
from tideline.errors import CorruptTableError
from tideline.formats.avro_scan import read_bytes, read_long

MAGIC = b"Obj\x01"
SYNC_BYTES = 16

_TYPES_MAX = 100_000
"""Of a schema with all names resolved: 10,000 columns have some 40,000."""
_REMEMBERED_CHARACTERS_MAX = 1 << 16
_UNREADABLE = "Avro file is truncated or unreadable"
_FIXED_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARIABLE = ("int", "long", "enum", "bytes", "string")


@dataclass(frozen=True, slots=True)
class AvroBlocks:
    """An opened container; `blocks_at` is where its first block begins."""

    metadata: Mapping[str, str]
    schema: Any
    path: object
    body: bytes
    blocks_at: int

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """The number of records and the decompressed bytes of each block.

        Raises CorruptTableError and UnsupportedTableError naming the path.
        """
        codec = self.metadata.get("avro.codec", "null")
        body, position = self.body, self.blocks_at
        sync = body[position - SYNC_BYTES : position]
        while position < len(body):
            with faults_named(_UNREADABLE, path=self.path):
                count, position = read_long(body, position)
                size, position = read_long(body, position)
                end = position + size
                if count < 0 or size < 0 or body[end : end + SYNC_BYTES] != sync:
                    raise ValueError("a block does not end with the marker")
            yield count, opened_block(self.schema, codec, count, body[position:end], self.path)
            position = end + SYNC_BYTES


def opened_block(schema: Any, codec: str, count: int, stored: bytes, path: object) -> bytes:
    """The decompressed bytes of a block of so many records. Raises as `AvroBlocks.blocks`."""
    values_max = read_limits().values_max
    block = decompress_bounded(codec, stored, path=path)
    if count > len(block):
        raise CorruptTableError(_UNREADABLE, path=path, value="records without bytes")
    if len(block) > values_max:
        _count_values(schema, block, count, values_max, path)
    return block


def open_blocks(body: bytes, *, path: object = None) -> AvroBlocks:
    """Read the header and check the schema. Raises CorruptTableError naming `path`."""
    with faults_named("not an Avro file, or a truncated one", path=path):
        if body[: len(MAGIC)] != MAGIC:
            raise ValueError("it does not begin with Avro's magic bytes")
        metadata, at = read_map(body, len(MAGIC))
        text = metadata["avro.schema"]
        schema = parse_json(text, path=path, what="Avro schema")
        if not isinstance(schema, dict) or len(body) < at + SYNC_BYTES:
            raise ValueError("it holds no records")
        if len(text) <= _REMEMBERED_CHARACTERS_MAX:
            _check_once(text)
        else:
            check_schema(schema)
    return AvroBlocks(metadata, schema, path, body, at + SYNC_BYTES)


def read_map(body: bytes, at: int) -> tuple[dict[str, str], int]:
    """The map of a header, and the position behind it. Raises ValueError or IndexError."""
    entries: dict[str, str] = {}
    while True:
        count, at = read_long(body, at)
        if count == 0:
            return entries, at
        if count < 0:  # a block that also says its size
            count = -count
            _, at = read_long(body, at)
        for _ in range(count):
            key, at = read_bytes(body, at)
            value, at = read_bytes(body, at)
            entries[key.decode()] = value.decode()


def check_schema(schema: Any) -> None:
    """Raise ValueError for a schema by which few bytes become much, or that is none."""
    _Measurer().measure(schema, "")


@lru_cache(maxsize=64)
def _check_once(text: str) -> None:
    """The files of a timeline have few schemas: only one that is found sound is remembered."""
    check_schema(json.loads(text))


@dataclass(frozen=True, slots=True)
class _Measure:
    """Of a type: how many types it consists of, and the fewest bytes a value takes."""

    types: int
    bytes_min: int


class _Measurer:
    """Measures types; a named one is None in `_named` while it is being measured."""

    def __init__(self) -> None:
        self._named: dict[str, _Measure | None] = {}

    def measure(self, schema: Any, namespace: str) -> _Measure:
        found = self._measure(schema, namespace)
        if found.types > _TYPES_MAX:
            raise ValueError(f"a type that consists of more than {_TYPES_MAX:,} others")
        return found

    def _measure(self, schema: Any, namespace: str) -> _Measure:
        if isinstance(schema, list):
            branches = [self.measure(branch, namespace) for branch in schema]
            least = 1 + min((branch.bytes_min for branch in branches), default=0)
            return _Measure(1 + sum(branch.types for branch in branches), least)
        if isinstance(schema, str):
            return self._of_name(schema, namespace)
        kind = schema["type"]
        if isinstance(kind, (list, dict)):
            return self.measure(kind, namespace)
        if kind in ("record", "error", "enum", "fixed"):
            return self._of_definition(schema, kind, namespace)
        if kind in ("array", "map"):
            item = self.measure(schema["items" if kind == "array" else "values"], namespace)
            if kind == "array" and not item.bytes_min:
                raise ValueError("an array of items that take no bytes")
            return _Measure(1 + item.types, 1)
        return self._of_name(kind, namespace)

    def _of_name(self, name: str, namespace: str) -> _Measure:
        if name in _FIXED_BYTES or name in _VARIABLE:
            return _Measure(1, _FIXED_BYTES.get(name, 1))
        full = full_name(name, namespace)
        key = full if full in self._named else name
        if key not in self._named:
            raise ValueError(f"no Avro type: {name[:100]}")
        found = self._named[key]
        if found is None:
            raise ValueError(f"a type that contains itself: {name[:100]}")
        return found

    def _of_definition(self, schema: Mapping[str, Any], kind: str, namespace: str) -> _Measure:
        name = full_name(schema["name"], schema.get("namespace", namespace) or "")
        if name in self._named:
            raise ValueError(f"a type that is defined twice: {name[:100]}")
        self._named[name] = None
        if kind in ("record", "error"):
            inner = name.rpartition(".")[0]
            parts = [self.measure(field["type"], inner) for field in schema["fields"]]
            types, least = sum(part.types for part in parts), sum(part.bytes_min for part in parts)
            found = _Measure(1 + types, least)
        else:
            found = _Measure(1, max(0, int(schema["size"])) if kind == "fixed" else 1)
        self._named[name] = found
        return found


def admit_values(schema: Any, datums: Sequence[bytes], *, path: object = None) -> None:
    """Raise UnsupportedTableError for records that together hold more values than one object may.
    Raise UnsupportedTableError for records that together hold more values than one object may."""
    values_max = read_limits().values_max
    if sum(map(len, datums)) <= values_max:
        return
    counter = _ValueCounter(values_max)
    try:
        with faults_named(_UNREADABLE, path=path):
            walk = counter.walker(schema, "")
            for datum in datums:
                walk(datum, 0)
    except _TooManyError:
        raise too_many_values(values_max + 1, values_max, path=path) from None


def full_name(name: str, namespace: str) -> str:
    """A type's name with its namespace."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


Walk = Callable[[bytes, int], int]


def _count_values(schema: Any, block: bytes, count: int, values_max: int, path: object) -> None:
    """Raise UnsupportedTableError when a block holds more values than are read from one object."""
    counter = _ValueCounter(values_max)
    position = 0
    try:
        with faults_named(_UNREADABLE, path=path):
            walk = counter.walker(schema, "")
            for _ in range(count):
                # Records are read and dropped one by one.
                counter.left = values_max
                position = walk(block, position)
    except _TooManyError:
        raise too_many_values(values_max + 1, values_max, path=path) from None


class _TooManyError(Exception):
    """More values than are allowed."""


class _ValueCounter:
    """Functions that step over a value of a type, taking its parts off what is `left`."""

    def __init__(self, left: int) -> None:
        self.left = left
        self._named: dict[str, Walk] = {}

    def walker(self, schema: Any, namespace: str) -> Walk:
        if isinstance(schema, list):
            return self._union([self.walker(branch, namespace) for branch in schema])
        kind = schema if isinstance(schema, str) else schema["type"]
        if isinstance(kind, (list, dict)):
            return self.walker(kind, namespace)
        if kind in ("record", "error"):
            return self._record(schema, namespace)
        if kind == "array":
            return self._items(self.walker(schema["items"], namespace))
        if kind == "map":
            value = self.walker(schema["values"], namespace)
            return self._items(lambda body, at: value(body, _step_over_bytes(body, at)))
        if kind in ("enum", "fixed"):
            name = full_name(schema["name"], schema.get("namespace", namespace) or "")
            size = int(schema["size"]) if kind == "fixed" else 0
            walk = _fixed(size) if kind == "fixed" else _step_over_number
            return self._named.setdefault(name, walk)
        if kind in _FIXED_BYTES:
            return _fixed(_FIXED_BYTES[kind])
        if kind in ("int", "long"):
            return _step_over_number
        if kind in ("bytes", "string"):
            return _step_over_bytes
        return self._named.get(full_name(kind, namespace)) or self._named[kind]

    def _union(self, branches: list[Walk]) -> Walk:
        def walk(body: bytes, at: int) -> int:
            index, at = read_long(body, at)
            return branches[index](body, at)

        return walk

    def _record(self, schema: Mapping[str, Any], namespace: str) -> Walk:
        name = full_name(schema["name"], schema.get("namespace", namespace) or "")
        inner = name.rpartition(".")[0]
        fields = [self.walker(field["type"], inner) for field in schema["fields"]]

        def walk(body: bytes, at: int) -> int:
            self._take(1 + len(fields))
            for field in fields:
                at = field(body, at)
            return at

        self._named[name] = walk
        return walk

    def _items(self, item: Walk) -> Walk:
        def walk(body: bytes, at: int) -> int:
            while True:
                count, at = read_long(body, at)
                if count < 0:
                    count = -count
                    _, at = read_long(body, at)
                if not count:
                    return at
                self._take(count)
                for _ in range(count):
                    at = item(body, at)

        return walk

    def _take(self, values: int) -> None:
        self.left -= values
        if self.left < 0:
            raise _TooManyError


def _fixed(size: int) -> Walk:
    return lambda _, at: at + size


def _step_over_number(body: bytes, at: int) -> int:
    return read_long(body, at)[1]


def _step_over_bytes(body: bytes, at: int) -> int:
    length, at = read_long(body, at)
    if length < 0 or at + length > len(body):
        raise ValueError("a length reaches past the end")
    return at + length
