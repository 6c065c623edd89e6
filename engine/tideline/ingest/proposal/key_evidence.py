"""Which columns identify a row, and which order its versions: proposals, with what was counted.

A proposal loses no row of those that were read: its columns are unique among them, or, where one is
named like a key and repeats, another that is named like a time of update differs each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import pyarrow as pa
import pyarrow.compute as pc

from tideline.wording import counted

_KEY_NAME = re.compile(
    r"(^|.*[^a-z])(id|key|uuid|guid|code|no|nr|number|nummer|sku|isbn|email)$", re.IGNORECASE
)
_CAMEL_KEY_NAME = re.compile(r".*[a-z](Id|ID|Key|Uuid|UUID|Code|No|Number)$")
_CHANGE_NAME = re.compile(
    r".*(updat|modif|chang|version|revision|last_|lsn|seq|ingest|event_time|ts_ms|timestamp).*"
    r"|ts|at|time|.*_(ts|at)",
    re.IGNORECASE,
)
_UPDATE_NAME = re.compile(r".*(updat|modif|chang|version|revision|last_|lsn).*", re.IGNORECASE)
_KEY_TYPES = ("long", "int", "string", "date", "timestamp", "timestamp_ntz")
_ORDERING_TYPES = ("timestamp", "timestamp_ntz", "date", "long", "int")
_COMBINED_MAX = 8
_TEXT_LENGTH_MAX = 64


@dataclass(frozen=True, slots=True)
class Counted:
    """How many different values some columns have in `rows` rows; `empty` of them lack one."""

    columns: tuple[str, ...]
    rows: int
    distinct: int
    empty: int

    @property
    def is_unique(self) -> bool:
        return self.rows > 0 and self.distinct == self.rows and not self.empty

    def __str__(self) -> str:
        name = ", ".join(self.columns)
        if self.empty:
            return f"{name} is empty in {counted(self.empty, 'row')} of {self.rows:,}"
        if self.is_unique:
            return f"{name} is unique in the {counted(self.rows, 'row')} read"
        again = self.rows - self.distinct
        return (
            f"{name} has {counted(self.distinct, 'value')} in the {counted(self.rows, 'row')} "
            f"read: {again:,} would replace an earlier one"
        )


@dataclass(frozen=True, slots=True)
class KeyProposal:
    """`key` and `ordering` with the evidence; a key without columns was not found."""

    key: tuple[str, ...] = ()
    ordering: tuple[str, ...] = ()
    key_evidence: str = ""
    ordering_evidence: str = ""


class KeyCounts:
    """Counts over the columns of a sample, by their names in the table to be."""

    def __init__(self, columns: Mapping[str, tuple[pa.ChunkedArray, str]]) -> None:
        """`columns` have their values and types; nested ones are left out."""
        self.types = {name: kind for name, (_, kind) in columns.items()}
        usable = {
            name: values
            for name, (values, _) in columns.items()
            if not pa.types.is_nested(values.type)
        }
        self._table = pa.table(usable)
        self._counted: dict[tuple[str, ...], Counted] = {}

    @property
    def names(self) -> list[str]:
        return list(self._table.column_names)

    def of(self, columns: Sequence[str]) -> Counted:
        """Count these columns together."""
        wanted = tuple(columns)
        if wanted not in self._counted:
            some = self._table.select(list(wanted))
            empty = some.num_rows - some.drop_null().num_rows
            distinct = some.group_by(list(wanted)).aggregate([]).num_rows
            self._counted[wanted] = Counted(wanted, some.num_rows, distinct, empty)
        return self._counted[wanted]

    def is_short(self, name: str) -> bool:
        """Whether a text is no longer than keys are."""
        values = self._table[name]
        if not pa.types.is_string(values.type):
            return True
        return bool((pc.mean(pc.utf8_length(values)).as_py() or 0) <= _TEXT_LENGTH_MAX)


def propose_keys(counts: KeyCounts, given: Sequence[str] = ()) -> KeyProposal:
    """The record key, unless it is `given`, and an ordering for it."""
    if given:
        found = counts.of(given)
        ordering, why = _ordering(counts, found)
        return KeyProposal(tuple(given), ordering, str(found), why)
    candidates = [
        name
        for name in counts.names
        if counts.types[name] in _KEY_TYPES
        and not counts.of([name]).empty
        and counts.is_short(name)
    ]
    named = [name for name in candidates if is_named_like_key(name)]
    for key in _choices(counts, candidates, named):
        found = counts.of(key)
        ordering, why = _ordering(counts, found)
        return KeyProposal(key, ordering, str(found), why)
    seen = [str(counts.of([name])) for name in (named or candidates)[:3]]
    return KeyProposal(key_evidence="; ".join(seen))


def is_named_like_key(name: str) -> bool:
    return bool(_KEY_NAME.fullmatch(name) or _CAMEL_KEY_NAME.fullmatch(name))


def _choices(
    counts: KeyCounts, candidates: Sequence[str], named: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    """Keys that lose no row, the likeliest first."""
    yield from ((name,) for name in named if counts.of([name]).is_unique)
    # A reading of a sensor has a time as well, and is no version of the one before it.
    changes = [
        name for name in candidates if _UPDATE_NAME.fullmatch(name) and _is_change(counts, name)
    ]
    for name in named:
        if any(counts.of([name, change]).is_unique for change in changes if change != name):
            yield (name,)
    texts = [name for name in candidates if counts.types[name] in ("long", "int", "string")]
    yield from _combined(counts, named, named)
    yield from ((name,) for name in texts if counts.of([name]).is_unique)
    yield from _combined(counts, candidates, named)


def _combined(
    counts: KeyCounts, candidates: Sequence[str], named: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    """Two or three columns that are unique together, those named like keys first."""
    ranked = sorted(candidates, key=lambda name: (name not in named, -counts.of([name]).distinct))
    for size in (2, 3):
        for columns in combinations(ranked[:_COMBINED_MAX], size):
            if counts.of(columns).is_unique:
                yield tuple(name for name in counts.names if name in columns)


def _is_change(counts: KeyCounts, name: str) -> bool:
    is_typed = counts.types[name] in _ORDERING_TYPES
    return is_typed and not counts.of([name]).empty and bool(_CHANGE_NAME.fullmatch(name))


def _ordering(counts: KeyCounts, key: Counted) -> tuple[tuple[str, ...], str]:
    """What orders the versions of a row, and why; nothing where no column is named like it."""
    others = [name for name in counts.names if name not in key.columns and _is_change(counts, name)]
    if not others:
        return (), "no column is named like a time of change: the row that arrives later wins"
    if key.is_unique:
        return (others[0],), f"{others[0]} is never empty, and named like a time of change"
    for name in others:
        if counts.of([*key.columns, name]).is_unique:
            why = f"{name} is never empty, and differs wherever {', '.join(key.columns)} repeats"
            return (name,), why
    return (others[0],), f"{others[0]} is never empty; where it is equal the later row wins"
