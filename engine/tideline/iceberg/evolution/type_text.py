"""Types as people write them: Iceberg's words, and those of SQL.

long, bigint, decimal(9, 2), fixed[16], list<int>, map<string, double>,
struct<city: string not null comment 'where', zip: int>
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tideline.errors import ConfigError, CorruptTableError
from tideline.iceberg.metadata.field_type import (
    Decimal,
    FieldType,
    Fixed,
    ListType,
    MapType,
    NestedField,
    StructType,
    parse_type,
)

_TOKEN = re.compile(
    r"\s*(?:(?P<word>[^\W\d]\w*)|`(?P<quoted>[^`]+)`|'(?P<text>(?:[^']|'')*)'"
    r"|(?P<number>\d+)|(?P<mark>[<>(),:\[\]]))"
)
_SQL = {
    "bigint": "long", "integer": "int", "smallint": "int", "tinyint": "int", "bool": "boolean",
    "real": "float", "varchar": "string", "text": "string", "timestamp_ntz": "timestamp",
    "timestamp_ltz": "timestamptz", "bytes": "binary", "numeric": "decimal",
}  # fmt: skip
_DIGITS_MAX = 38
_DEPTH_MAX = 50


def as_type(given: Any) -> FieldType:
    """A type from its text, or from its JSON in Iceberg's metadata; ids in it count for nothing.

    Raises ConfigError quoting what is none.
    """
    if isinstance(given, str):
        return _Reader(given).whole()
    if isinstance(given, Mapping):
        try:
            return parse_type(given)
        except CorruptTableError as error:
            raise ConfigError("this is no type of Iceberg", value=given) from error
    if isinstance(given, FieldType):
        return given
    raise ConfigError("a type is text, such as decimal(9, 2) or list<int>", value=given)


class _Reader:
    """Reads one type."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._position = 0

    def whole(self) -> FieldType:
        found = self._type(0)
        if self._position < len(self._tokens):
            raise self._wrong()
        return found

    def _split(self) -> list[tuple[str, str]]:
        tokens, position, text = [], 0, self._text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None or match.lastgroup is None:
                raise self._wrong()
            tokens.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()
        return tokens

    def _type(self, depth: int) -> FieldType:
        kind, word = self._next()
        if kind != "word" or depth > _DEPTH_MAX:
            raise self._wrong()
        name = _SQL.get(word.lower(), word.lower())
        match name:
            case "struct":
                return StructType(self._members(depth + 1))
            case "list" | "array":
                (element,) = self._inside(1, depth)
                return ListType(0, element, element_required=False)
            case "map":
                key, value = self._inside(2, depth)
                return MapType(0, key, 0, value, value_required=False)
            case "decimal":
                precision, scale = self._numbers(2)
                if not 0 < precision <= _DIGITS_MAX or scale > precision:
                    message = f"a decimal has up to {_DIGITS_MAX} digits, and no more behind it"
                    raise ConfigError(message, value=self._text)
                return Decimal(precision, scale)
            case "fixed":
                return Fixed(*self._numbers(1))
        if name in ("geometry", "geography") and self._is_next("("):
            raise self._wrong()
        try:
            return parse_type(name)
        except CorruptTableError:
            raise self._wrong() from None

    def _members(self, depth: int) -> tuple[NestedField, ...]:
        self._take("<")
        found: list[NestedField] = []
        while True:
            kind, name = self._next()
            if kind not in ("word", "quoted"):
                raise self._wrong()
            if self._is_next(":"):
                self._take(":")
            type_ = self._type(depth)
            required = self._takes_words("not", "null")
            doc = self._comment()
            if any(member.name.lower() == name.lower() for member in found):
                raise ConfigError(f"the struct has {name} twice", value=self._text)
            found.append(NestedField(0, name, type_, required, doc))
            if self._is_next(">"):
                self._take(">")
                return tuple(found)
            self._take(",")

    def _inside(self, count: int, depth: int) -> list[FieldType]:
        self._take("<")
        found = [self._type(depth + 1)]
        while len(found) < count:
            self._take(",")
            found.append(self._type(depth + 1))
        self._take(">")
        return found

    def _numbers(self, count: int) -> list[int]:
        opening = "[" if self._is_next("[") else "("
        self._take(opening)
        found: list[int] = []
        while len(found) < count:
            if found:
                self._take(",")
            kind, text = self._next()
            if kind != "number":
                raise self._wrong()
            found.append(int(text))
        self._take("]" if opening == "[" else ")")
        return found

    def _comment(self) -> str | None:
        if not self._takes_words("comment"):
            return None
        kind, text = self._next()
        if kind != "text":
            raise self._wrong()
        return text.replace("''", "'")

    def _takes_words(self, *words: str) -> bool:
        ahead = self._tokens[self._position : self._position + len(words)]
        if [(kind, text.lower()) for kind, text in ahead] != [("word", word) for word in words]:
            return False
        self._position += len(words)
        return True

    def _is_next(self, mark: str) -> bool:
        return self._tokens[self._position : self._position + 1] == [("mark", mark)]

    def _take(self, mark: str) -> None:
        if not self._is_next(mark):
            raise self._wrong()
        self._position += 1

    def _next(self) -> tuple[str, str]:
        if self._position >= len(self._tokens):
            raise self._wrong()
        self._position += 1
        return self._tokens[self._position - 1]

    def _wrong(self) -> ConfigError:
        message = (
            "this is no type: types are such as long, decimal(9, 2), list<int>, "
            "struct<city: string, zip: int>"
        )
        return ConfigError(message, value=self._text)
