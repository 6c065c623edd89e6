"""Column types as people write them in a LakeTable: Spark's names, checked without Spark or Arrow.

Grammar: boolean, int, long, float, double, string, binary, date, timestamp, timestamp_ntz,
decimal(p,s), array<T>, map<string,T>, struct<name:T,...>, nested at most eight levels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

PRIMITIVE_TYPES = (
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
)
_SYNONYMS = {"integer": "int", "bigint": "long", "bool": "boolean"}
_DECIMAL_PRECISION_MAX = 38
_DEPTH_MAX = 8
_ALLOWED = (
    f"allowed: {', '.join(PRIMITIVE_TYPES)}, decimal(p,s), array<T>, map<string,T>, struct<a:T,...>"
)


@dataclass(frozen=True, slots=True)
class ColumnType:
    """One type; `fields` are the members of a struct, or the element of an array or map."""

    name: str
    precision: int = 0
    scale: int = 0
    fields: tuple[tuple[str, ColumnType], ...] = ()

    @classmethod
    def parse(cls, text: str) -> ColumnType:
        """Raises ValueError saying which part of `text` is no type, and what is allowed."""
        reader = _TypeReader(text)
        parsed = reader.read_type(depth=0)
        reader.expect_end()
        return parsed

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.name == "array":
            return f"array<{self.fields[0][1]}>"
        if self.name == "map":
            return f"map<string,{self.fields[0][1]}>"
        if self.name == "struct":
            return f"struct<{','.join(f'{name}:{kind}' for name, kind in self.fields)}>"
        return self.name


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a declared schema."""

    name: str
    type: ColumnType
    nullable: bool = True


def columns_object(columns: Iterable[Column]) -> list[list[Any]]:
    """The columns as JSON."""
    return [[column.name, str(column.type), column.nullable] for column in columns]


def read_columns(content: Any) -> tuple[Column, ...]:
    """Columns from what `columns_object` gave."""
    return tuple(
        Column(str(name), ColumnType.parse(kind), bool(nullable))
        for name, kind, nullable in content
    )


def plain_name(kind: str) -> str:
    """The name of a type that Spark (`bigint`) or Arrow (`int64`) spells otherwise."""
    if kind.startswith("timestamp["):
        return "timestamp" if "tz=" in kind else "timestamp_ntz"
    if kind.startswith("decimal"):
        return re.sub(r"^decimal[0-9]*", "decimal", kind).replace(" ", "")
    return re.sub(r"\b[a-z0-9]+\b(\[day\])?(?!:)", lambda word: _PLAIN.get(word[0], word[0]), kind)


_PLAIN = {
    "bigint": "long",
    "int64": "long",
    "int32": "int",
    "bool": "boolean",
    "large_string": "string",
    "date32[day]": "date",
}


class _TypeReader:
    """A recursive-descent reader over the tokens of one type."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = re.findall(r"[A-Za-z0-9_]+|[<>(),:]|[^\s]", text)
        self._next = 0

    def read_type(self, depth: int) -> ColumnType:
        if depth > _DEPTH_MAX:
            raise ValueError(f"types nest at most {_DEPTH_MAX} levels deep")
        word = self._take().lower()
        name = _SYNONYMS.get(word, word)
        if name in PRIMITIVE_TYPES:
            return ColumnType(name)
        if name == "decimal":
            return self._read_decimal()
        if name == "array":
            return ColumnType("array", fields=(("element", self._read_bracketed(depth)),))
        if name == "map":
            return ColumnType("map", fields=(("value", self._read_map_value(depth)),))
        if name == "struct":
            return ColumnType("struct", fields=self._read_members(depth))
        if name in ("byte", "short", "tinyint", "smallint"):
            raise ValueError(f"Hudi's Avro schemas have no {word}: use int")
        raise ValueError(f"{word!r} is not a column type; {_ALLOWED}")

    def expect_end(self) -> None:
        if self._next != len(self._tokens):
            raise ValueError(f"unexpected {self._tokens[self._next]!r} after the type; {_ALLOWED}")

    def _read_decimal(self) -> ColumnType:
        self._expect("(")
        precision = self._take_number()
        self._expect(",")
        scale = self._take_number()
        self._expect(")")
        if not 1 <= precision <= _DECIMAL_PRECISION_MAX or scale > precision:
            raise ValueError(f"decimal(p,s) needs 1 <= p <= {_DECIMAL_PRECISION_MAX} and s <= p")
        return ColumnType("decimal", precision=precision, scale=scale)

    def _read_bracketed(self, depth: int) -> ColumnType:
        self._expect("<")
        element = self.read_type(depth + 1)
        self._expect(">")
        return element

    def _read_map_value(self, depth: int) -> ColumnType:
        self._expect("<")
        if self.read_type(depth + 1).name != "string":
            raise ValueError("the keys of a map are strings: map<string,T>")
        self._expect(",")
        value = self.read_type(depth + 1)
        self._expect(">")
        return value

    def _read_members(self, depth: int) -> tuple[tuple[str, ColumnType], ...]:
        self._expect("<")
        members: dict[str, ColumnType] = {}
        while True:
            name = self._take()
            if not name.isidentifier() or name in members:
                raise ValueError(f"{name!r} is not a valid and unique member name of a struct")
            self._expect(":")
            members[name] = self.read_type(depth + 1)
            separator = self._take()
            if separator == ">":
                return tuple(members.items())
            if separator != ",":
                raise ValueError(f"expected ',' or '>' in {self._text!r}, found {separator!r}")

    def _take(self) -> str:
        if self._next == len(self._tokens):
            raise ValueError(f"{self._text!r} ends too early; {_ALLOWED}")
        self._next += 1
        return self._tokens[self._next - 1]

    def _take_number(self) -> int:
        word = self._take()
        if not word.isdigit():
            raise ValueError(f"expected a number in {self._text!r}, found {word!r}")
        return int(word)

    def _expect(self, token: str) -> None:
        found = self._take()
        if found != token:
            raise ValueError(f"expected {token!r} in {self._text!r}, found {found!r}")
