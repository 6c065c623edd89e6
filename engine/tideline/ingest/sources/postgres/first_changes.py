"""What keys of a table had at a position, from their first changes behind it.

A first change that inserts says that there was no row. One that updates or deletes says that there
was one, and has it where the replica identity is full.

A row that is gone since may be missing in the table although it was there: the ingest leaves out
what it could not read whole (see `reader`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import cast

from tideline.errors import ConfigError
from tideline.ingest.sources.postgres.changes import Texts, texts_of_rows
from tideline.ingest.sources.postgres.leaves import LeavesOfLog
from tideline.ingest.sources.postgres.pgoutput import (
    Begin,
    Change,
    Commit,
    Relation,
    Row,
    Truncate,
    Unchanged,
    Value,
    decode_message,
)
from tideline.ingest.sources.postgres.seen import Seen
from tideline.ingest.sources.source import Shape

KEYS_MAX = 1_000_000
"""How many keys are remembered."""
_INSERT = b"I"
Key = tuple[Value, ...]


@dataclass(slots=True)
class _Group:
    """Rows of the same columns."""

    columns: tuple[tuple[str, int], ...]
    rows: list[Row] = field(default_factory=list)

    def texts(self) -> tuple[Texts, int]:
        return texts_of_rows(self.columns, self.rows), len(self.rows)


@dataclass(slots=True)
class FirstChanges:
    """The changes of the table of this number, behind `after`, by transactions that are seen."""

    uri: str
    oid: int
    after: int
    seen: Seen
    shape: Shape
    _met: set[Key] = field(default_factory=set)
    _still_there: set[Key] = field(default_factory=set)
    _absent: list[_Group] = field(default_factory=list)
    _replaced: list[_Group] = field(default_factory=list)
    _gone: list[_Group] = field(default_factory=list)
    _whole: list[_Group] = field(default_factory=list)
    _relation: Relation | None = None
    _places: list[int] = field(default_factory=list)
    _counts: bool = False
    _leaves: LeavesOfLog = field(init=False)

    def __post_init__(self) -> None:
        self._leaves = LeavesOfLog(self.oid)

    def read(self, messages: Iterable[bytes]) -> None:
        """Raises ConfigError for what leaves too much unknown."""
        for data in messages:
            message = decode_message(data)
            self._leaves.note(message)
            if isinstance(message, Change):
                if message.oid == self.oid and self._counts:
                    self._add(message, is_insert=data[:1] == _INSERT)
            elif isinstance(message, Begin):
                self._counts = message.lsn >= self.after and self.seen.has(message.xid)
            elif isinstance(message, Commit):
                self._counts = False
            elif isinstance(message, Relation):
                if message.oid == self.oid:
                    self._begin(message)
            elif isinstance(message, Truncate) and self.oid in message.oids and self._counts:
                self._refuse("the source was emptied behind what the table has")

    def absent(self) -> Iterator[tuple[Texts, int]]:
        """Keys that had no row."""
        return (group.texts() for group in self._absent if group.rows)

    def replaced(self) -> Iterator[tuple[Texts, int]]:
        """Keys that had a row."""
        return (group.texts() for group in self._replaced if group.rows)

    def gone(self) -> Iterator[tuple[Texts, int]]:
        """Keys whose row the log had not whole, and which are deleted since, or were once."""
        return (group.texts() for group in self._gone if group.rows)

    def whole(self) -> Iterator[tuple[Texts, int]]:
        """Rows that were there."""
        return (group.texts() for group in self._whole if group.rows)

    def _begin(self, relation: Relation) -> None:
        if relation == self._relation:
            return
        columns = tuple((column.name, column.type_oid) for column in relation.columns)
        places = {name: number for number, (name, _) in enumerate(columns)}
        if not set(self.shape.record_key) <= places.keys():
            self._refuse("the source has another key behind what the table has")
        self._relation = relation
        self._places = [places[name] for name in self.shape.record_key]
        keys = tuple(columns[place] for place in self._places)
        self._absent.append(_Group(keys))
        self._replaced.append(_Group(keys))
        self._gone.append(_Group(keys))
        self._whole.append(_Group(columns))

    def _add(self, change: Change, *, is_insert: bool) -> None:
        old, new = change.old, change.new
        is_full = self._relation is not None and self._relation.is_full and self._leaves.are_full
        before = None if is_insert else self._key(new if old is None else old, old)
        after = None if new is None else self._key(new, old)
        if before is not None:
            if not self._is_first(before):
                self._note_gone(before, is_gone=before != after)
            elif old is not None and is_full:
                self._whole[-1].rows.append(old)
            else:
                self._replaced[-1].rows.append(list(before))
                self._still_there.add(before)
                self._note_gone(before, is_gone=before != after)
        if after is not None and self._is_first(after):
            self._absent[-1].rows.append(list(after))

    def _note_gone(self, key: Key, *, is_gone: bool) -> None:
        """Note that a row is gone which the log did not have whole."""
        if is_gone and key in self._still_there:
            self._still_there.remove(key)
            self._gone[-1].rows.append(list(key))

    def _key(self, row: Row | None, old: Row | None) -> Key:
        assert row is not None, "a change without rows"
        values = [row[place] for place in self._places]
        if any(isinstance(value, Unchanged) for value in values):
            if old is None or old is row:
                self._refuse("the log leaves out keys that are large and did not change")
            else:
                return self._key(
                    [old[n] if isinstance(value, Unchanged) else value
                     for n, value in enumerate(row)], None,
                )  # fmt: skip
        return cast(Key, tuple(values))

    def _is_first(self, key: Key) -> bool:
        if key in self._met:
            return False
        self._met.add(key)
        if len(self._met) > KEYS_MAX:
            self._refuse(f"the source has changed more than {KEYS_MAX:,} rows since")
        return True

    def _refuse(self, what: str) -> None:
        message = f"{what}: compare them once the table has taken that in"
        raise ConfigError(message, path=self.uri)
