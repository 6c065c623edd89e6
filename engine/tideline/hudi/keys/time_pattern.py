"""Patterns of dates and times in Joda's letters, taken apart. Pure.

A pattern is runs of one letter, which are fields, and text between them, in quotes or not. What
Java's letters or Spark's rules mean otherwise is not taken apart: such a pattern is for Spark.
Source: Joda's DateTimeFormat, Java's DateTimeFormatterBuilder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PART = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<field>([A-Za-z])\3*)|(?P<text>[^A-Za-z'])")
_RESERVED = frozenset("[]{}#")
"""Text to Joda, but not to Java, unless it is quoted."""
_WIDTHS_MAX = {
    "y": 6,
    "Y": 6,
    "M": 4,
    "d": 2,
    "D": 3,
    "E": 4,
    "a": 1,
    "H": 2,
    "h": 2,
    "K": 2,
    "k": 2,
    "m": 2,
    "s": 2,
    "S": 9,
    "Z": 2,
}
"""Letters that Joda and Java read alike, and how often they may occur in one run."""


@dataclass(frozen=True, slots=True)
class Field:
    """A run of `width` times `letter`; a year's letter is always `y`."""

    letter: str
    width: int


@dataclass(frozen=True, slots=True)
class Text:
    """What stands in the pattern as it is."""

    text: str


PatternPart = Field | Text


def pattern_parts(joda: str) -> tuple[PatternPart, ...] | None:
    """The parts of a pattern; None for one that Joda and Java may read in different ways."""
    parts: list[PatternPart] = []
    position = 0
    while position < len(joda):
        found = _PART.match(joda, position)
        part = None if found is None else _part(found)
        if part is None:
            return None
        parts.append(part)
        position = found.end() if found else position
    return tuple(parts)


def _part(found: re.Match[str]) -> PatternPart | None:
    if found["quoted"] is not None:
        return Text(found["quoted"].replace("''", "'") or "'")
    if found["field"] is None:
        return None if found["text"] in _RESERVED else Text(found["text"])
    letter, width = found["field"][0], len(found["field"])
    if width > _WIDTHS_MAX.get(letter, 0):
        return None
    return Field(letter.lower() if letter == "Y" else letter, width)
