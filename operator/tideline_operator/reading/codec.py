"""Values as JSON and back, by their declared types.

What comes back from a process that read a tenant's table is less trusted than this one: it names no
class. The type that a caller expects decides what is made: dataclasses of its fields, enumerations,
tuples, sets and mappings of these, and plain values; anything else is refused. No code of the other
side's choice is found, called or loaded, unlike with `pickle`.

A dataclass is the list of its fields' values. Where there are several types to choose from, a value
is preceded by the number of its own.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

from tideline.errors import TidelineError
from tideline.hudi.services.registry import TableService, service_named
from tideline.iceberg.metadata.schema import Schema
from tideline.ingest.sources.kinds import KINDS, SourceKind
from tideline.ingest.sources.source import Available, Declared, Position

VALUES_MAX = 2_000_000
"""In one document; a value takes about a hundred bytes of memory."""
_PLAIN = (str, int, float, bool, type(None))


class CodecError(Exception):
    """A value, or what came in its place, is not of the expected type."""


@dataclass(frozen=True, slots=True)
class _Codec:
    """How values of one type are spelled. `holds` is whether a value is of the type."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    holds: Callable[[Any], bool]


def to_bytes(kind: Any, value: object) -> bytes:
    """The value, of the type `kind`, as JSON. Raises CodecError for one of another type."""
    try:
        return json.dumps(_codec(kind).encode(value), separators=(",", ":")).encode()
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise CodecError(f"cannot be handed over: {error!r}") from error


def from_bytes(kind: Any, body: bytes) -> Any:
    """The value of the type `kind` that `body` spells. Raises CodecError for anything else."""
    values = body.count(b",") + body.count(b"[") + body.count(b"{")
    if values > VALUES_MAX:
        raise CodecError(f"{values:,} values are more than the {VALUES_MAX:,} that are taken")
    try:
        return _codec(kind).decode(json.loads(body.decode()))
    except CodecError:
        raise
    except Exception as error:
        # Of the parser, and of the constructors and checks of the types themselves.
        raise CodecError(f"is not what was expected: {error!r:.300}") from error


def prepare(*kinds: Any) -> None:
    """Find out now how values of these types are spelled, which is done once in a process."""
    for kind in kinds:
        _codec(kind)
    while _unprepared:
        _unprepared.pop()()


_unprepared: list[Callable[[], object]] = []


@cache
def _codec(kind: Any) -> _Codec:
    special = _SPECIAL.get(kind)
    if special is not None:
        return special
    if kind in _OF_SOURCES:
        return _union(tuple(map(_OF_SOURCES[kind], KINDS.values())))
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _union(typing.get_args(kind))
    if origin is tuple:
        return _tuple(typing.get_args(kind))
    if origin is frozenset:
        return _frozenset(_codec(typing.get_args(kind)[0]))
    if origin is Mapping:
        return _mapping(*typing.get_args(kind))
    if dataclasses.is_dataclass(kind):
        return _dataclass(typing.cast(type, kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum(kind)
    if isinstance(kind, type) and issubclass(kind, TidelineError):
        return _error(kind)
    raise CodecError(f"values of {kind} are not handed over")


def _exactly(kind: type) -> _Codec:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise CodecError(f"expected {kind.__name__}, got {type(value).__name__}")
        return value

    return _Codec(check, check, lambda value: type(value) is kind)


def _number() -> _Codec:
    def check(value: Any) -> float:
        if type(value) not in (int, float):
            raise CodecError(f"expected a number, got {type(value).__name__}")
        return float(value)

    return _Codec(check, check, lambda value: type(value) is float)


def _plain(value: Any) -> Any:
    """JSON as it is."""
    if type(value) is dict and all(type(name) is str for name in value):
        return {name: _plain(item) for name, item in value.items()}
    if type(value) in (list, tuple):
        return [_plain(item) for item in value]
    if type(value) in _PLAIN:
        return value
    raise CodecError(f"{type(value).__name__} is not handed over")


def _service() -> _Codec:
    def encode(service: Any) -> str:
        return str(service.name)

    def decode(name: Any) -> TableService:
        if type(name) is not str:
            raise CodecError("expected the name of a table service")
        return service_named(name)

    return _Codec(encode, decode, lambda value: isinstance(value, TableService))


def _schema() -> _Codec:
    """A schema's own JSON: types nest, and the codec's nesting on top would be too deep."""

    def decode(document: Any) -> Schema:
        if type(document) is not dict:
            raise CodecError("expected a schema")
        return Schema.parse(document)

    return _Codec(Schema.json, decode, lambda value: type(value) is Schema)


def _error(kind: type[TidelineError]) -> _Codec:
    """An error as a value: its texts."""
    texts = tuple[str, str | None, str | None, str | None, str | None]

    def encode(error: Any) -> Any:
        named = (error.table, error.instant, error.path, error.value)
        shown = (None if item is None else str(item) for item in named)
        return _codec(texts).encode((error.message, *shown))

    def decode(document: Any) -> TidelineError:
        message, table, instant, path, value = _codec(texts).decode(document)
        return kind(message, table=table, instant=instant, path=path, value=value)

    return _Codec(encode, decode, lambda value: isinstance(value, kind))


def _enum(kind: type[Enum]) -> _Codec:
    members = dict(kind.__members__)

    def decode(name: Any) -> Enum:
        if type(name) is not str or name not in members:
            raise CodecError(f"{name!r:.40} is no {kind.__name__}")
        return members[name]

    def encode(member: Any) -> str:
        if type(member) is not kind:
            raise CodecError(f"expected {kind.__name__}, got {type(member).__name__}")
        return str(member.name)

    return _Codec(encode, decode, lambda value: type(value) is kind)


def _tuple(members: tuple[Any, ...]) -> _Codec:
    if len(members) == 2 and members[1] is Ellipsis:
        candidate = _codec(members[0])
        return _Codec(
            lambda value: [candidate.encode(item) for item in value],
            lambda document: tuple(candidate.decode(item) for item in _list(document)),
            lambda value: isinstance(value, tuple),
        )
    codecs = tuple(map(_codec, members))

    def encode(value: Any) -> list[Any]:
        return [codec.encode(item) for codec, item in zip(codecs, value, strict=True)]

    def decode(document: Any) -> tuple[Any, ...]:
        items = _list(document, len(codecs))
        return tuple(codec.decode(item) for codec, item in zip(codecs, items, strict=True))

    return _Codec(encode, decode, lambda value: isinstance(value, tuple))


def _frozenset(codec: _Codec) -> _Codec:
    return _Codec(
        lambda value: [codec.encode(item) for item in value],
        lambda document: frozenset(codec.decode(item) for item in _list(document)),
        lambda value: isinstance(value, frozenset),
    )


def _mapping(key: Any, content: Any) -> _Codec:
    keys, values = _codec(key), _codec(content)
    return _Codec(
        lambda value: [[keys.encode(k), values.encode(v)] for k, v in value.items()],
        lambda document: {
            keys.decode(k): values.decode(v)
            for k, v in (_list(pair, 2) for pair in _list(document))
        },
        lambda value: isinstance(value, Mapping),
    )


def _union(members: tuple[Any, ...]) -> _Codec:
    codecs = tuple(_codec(member) for member in members if member is not type(None))
    takes_none = len(codecs) < len(members)
    if takes_none and len(codecs) == 1:
        return _optional(codecs[0])

    def encode(value: Any) -> Any:
        if value is None and takes_none:
            return None
        for number, codec in enumerate(codecs):
            if codec.holds(value):
                return [number, codec.encode(value)]
        raise CodecError(f"{type(value).__name__} is none of {members}")

    def decode(document: Any) -> Any:
        if document is None and takes_none:
            return None
        number, content = _list(document, 2)
        if type(number) is not int or not 0 <= number < len(codecs):
            raise CodecError(f"{number!r:.40} is the number of no member of a union")
        return codecs[number].decode(content)

    def holds(value: Any) -> bool:
        return (value is None and takes_none) or any(codec.holds(value) for codec in codecs)

    return _Codec(encode, decode, holds)


def _optional(codec: _Codec) -> _Codec:
    """No type here is spelled `null` but that of None."""
    return _Codec(
        lambda value: None if value is None else codec.encode(value),
        lambda document: None if document is None else codec.decode(document),
        lambda value: value is None or codec.holds(value),
    )


def _dataclass(kind: type) -> _Codec:
    hints = typing.get_type_hints(kind)
    names = tuple(attribute.name for attribute in dataclasses.fields(kind) if attribute.init)
    known: tuple[_Codec, ...] | None = None

    def parts() -> tuple[_Codec, ...]:
        # Looked up when needed: types contain themselves.
        nonlocal known
        if known is None:
            known = tuple(_codec(hints[name]) for name in names)
        return known

    _unprepared.append(parts)

    def encode(value: Any) -> list[Any]:
        if type(value) is not kind:
            raise CodecError(f"expected {kind.__name__}, got {type(value).__name__}")
        pairs = zip(names, parts(), strict=True)
        return [codec.encode(getattr(value, name)) for name, codec in pairs]

    def decode(document: Any) -> Any:
        items = _list(document, len(names))
        given = zip(names, parts(), items, strict=True)
        return kind(**{name: codec.decode(item) for name, codec, item in given})

    return _Codec(encode, decode, lambda value: type(value) is kind)


def _list(document: Any, length: int | None = None) -> list[Any]:
    if type(document) is not list or (length is not None and len(document) != length):
        expected = "a list" if length is None else f"a list of {length}"
        raise CodecError(f"expected {expected}, got {type(document).__name__}")
    return document


_OF_SOURCES: dict[Any, Callable[[SourceKind], type]] = {
    Declared: lambda kind: kind.declared,
    Available: lambda kind: kind.available,
    Position: lambda kind: kind.position,
}
"""Values of sources are of the kinds there are."""
_SPECIAL: dict[Any, _Codec] = {
    str: _exactly(str),
    int: _exactly(int),
    bool: _exactly(bool),
    float: _number(),
    type(None): _exactly(type(None)),
    Any: _Codec(_plain, _plain, lambda _: True),
    object: _Codec(_plain, _plain, lambda _: True),
    TableService: _service(),
    Schema: _schema(),
}
