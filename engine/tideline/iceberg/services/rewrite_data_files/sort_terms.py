"""The sort order of a rewrite as text: `a DESC NULLS LAST, bucket(4, b)` or `zorder(a, b)`.

The grammar is the one of Iceberg's `sort_order` argument. Directions and null orders default as
SQL's do there: ascending with nulls first, descending with nulls last.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tideline.errors import ConfigError

_COLUMN = r"(?:`[^`]+`|[^\s,()`]+)"
_TRANSFORM = (
    rf"(?P<function>\w+)\s*\(\s*(?:(?P<width>\d+)\s*,\s*)?(?P<argument>{_COLUMN})\s*"
    r"(?:,\s*(?P<width_last>\d+)\s*)?\)"
)
_TERM = re.compile(
    rf"\s*(?:{_TRANSFORM}|(?P<column>{_COLUMN}))"
    r"(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*",
    re.IGNORECASE,
)
_ZORDER = re.compile(r"\s*zorder\s*\((?P<columns>.*)\)\s*", re.IGNORECASE | re.DOTALL)
_TRANSFORMS = {"years": "year", "months": "month", "days": "day", "hours": "hour"}


@dataclass(frozen=True, slots=True)
class SortTerm:
    """One column, or a transform of one (`bucket[4]`, as partition specs print it), to sort by."""

    column: str
    transform: str = "identity"
    is_descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        term = self.column if self.transform == "identity" else f"{self.transform}({self.column})"
        direction = "DESC" if self.is_descending else "ASC"
        return f"{term} {direction} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


def parse_sort_order(text: str) -> tuple[bool, tuple[SortTerm, ...]]:
    """Whether it is a z-order, and its terms. Raises ConfigError quoting what cannot be read."""
    if not text.strip():
        return False, ()
    curve = _ZORDER.fullmatch(text)
    terms = tuple(_term(part) for part in _split(curve["columns"] if curve else text))
    if curve and any(term != SortTerm(term.column) for term in terms):
        raise ConfigError("a z-order takes plain column names", value=text)
    return curve is not None, terms


def _split(text: str) -> list[str]:
    """At the commas outside parentheses and back quotes."""
    parts, depth, quoted, start = [], 0, False, 0
    for position, character in enumerate(text):
        if character == "`":
            quoted = not quoted
        elif not quoted:
            depth += (character == "(") - (character == ")")
            if character == "," and depth == 0:
                parts.append(text[start:position])
                start = position + 1
    return [*parts, text[start:]]


def _term(text: str) -> SortTerm:
    found = _TERM.fullmatch(text)
    if found is None:
        raise ConfigError(
            "the sort order cannot be read: it is like `a DESC NULLS LAST, bucket(4, b)`",
            value=text.strip(),
        )
    is_descending = (found["direction"] or "").lower() == "desc"
    nulls = (found["nulls"] or "").lower()
    return SortTerm(
        column=(found["column"] or found["argument"]).strip("`"),
        transform=_transform(found),
        is_descending=is_descending,
        nulls_first=nulls == "first" if nulls else not is_descending,
    )


def _transform(found: re.Match[str]) -> str:
    if found["function"] is None:
        return "identity"
    name = _TRANSFORMS.get(found["function"].lower(), found["function"].lower())
    width = found["width"] or found["width_last"]
    return f"{name}[{width}]" if width else name
