"""Changes of one table, from the messages of its log, as rows that write and rows that delete.

1. Transactions that end before the range were taken in already; they are there as long as the slot
   has not moved.
2. An update of a row's key deletes the old row and writes the new one.
3. A value that is stored apart (TOAST) and did not change is not in the log. It is that of the old
   row where the log has it whole, else of the change before, if that is here. The others are left
   `unchanged`. Of a key that is stored apart the old row has it.
4. A truncate that is to delete leaves nothing of before, neither here nor in the table.
5. Where columns change within the range, rows from there on are another run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tideline.errors import ConfigError
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.postgres.leaves import LeavesOfLog
from tideline.ingest.sources.postgres.lsn import lsn_text
from tideline.ingest.sources.postgres.pgoutput import (
    UNCHANGED,
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
from tideline.ingest.sources.postgres.position import LastChange

Texts = dict[str, tuple[pa.Array, int]]
"""Columns of texts by name, with the numbers of their types."""


@dataclass(slots=True)
class Run:
    """Rows of the same columns, each with its number in the order of all. Deletes have the values
    of the key, or all that the log has of the row."""

    columns: tuple[tuple[str, int], ...]
    written: list[Row] = field(default_factory=list)
    written_order: list[int] = field(default_factory=list)
    deleted: list[Row] = field(default_factory=list)
    deleted_order: list[int] = field(default_factory=list)

    def numbers_of(self, names: Sequence[str]) -> list[int] | None:
        """Where columns of these names are; None where one is missing."""
        places = {name: number for number, (name, _) in enumerate(self.columns)}
        numbers = [places.get(name) for name in names]
        return None if None in numbers else [number for number in numbers if number is not None]


@dataclass(slots=True)
class Changes:
    """What messages say of the table of this number, behind `after`: how many there are, where the
    last transaction `ended`, and the `last` one that changed rows."""

    uri: str
    oid: int
    after: int
    until: int
    key: tuple[str, ...]
    on_truncate: OnTruncate
    bytes_max: int
    runs: list[Run] = field(default_factory=list)
    xids: set[int] = field(default_factory=set)
    count: int = 0
    size_bytes: int = 0
    messages: int = 0
    ended: int = 0
    unchanged: list[tuple[Run, int]] = field(default_factory=list)
    is_truncated: bool = False
    last: LastChange | None = None
    leaves: LeavesOfLog = field(init=False)
    _last: dict[tuple[Value | Unchanged, ...], Row] = field(default_factory=dict)
    _relation: Relation | None = None
    _places: list[int] = field(default_factory=list)
    _is_new: bool = False
    _begin: LastChange | None = None
    _order: int = 0

    def __post_init__(self) -> None:
        self.leaves = LeavesOfLog(self.oid)

    def read(self, messages: Iterable[bytes], changes_max: int | None = None) -> bool:
        """All, or up to the end of a transaction behind which there are so many changes; whether it
        stopped there. Raises ConfigError for what cannot be taken in."""
        for data in messages:
            self.messages += 1
            message = decode_message(data)
            self.leaves.note(message, counts=self._is_new)
            if isinstance(message, Change):
                if message.oid == self.oid and self._is_new:
                    self.last = self._begin
                    self._note_size(len(data))
                    self._add(message)
            elif isinstance(message, Begin):
                # The commit of one that ends at `after` is before it.
                self._is_new = self.after <= message.lsn < self.until
                if self._is_new:
                    self.xids.add(message.xid)
                    self._begin = LastChange(message.lsn, message.time_us)
            elif isinstance(message, Relation):
                if message.oid == self.oid:
                    self._begin_run(message)
            elif isinstance(message, Truncate):
                if self.oid in message.oids and self._is_new:
                    self._truncate()
            elif isinstance(message, Commit):
                self._is_new, self.ended = False, message.end_lsn
                if changes_max is not None and self.count >= changes_max:
                    return True
        return False

    def _note_size(self, size_bytes: int) -> None:
        self.count += 1
        self.size_bytes += size_bytes
        if self.size_bytes > self.bytes_max:
            raise ConfigError(
                f"the changes of one commit have more than {self.bytes_max:,} bytes: lower "
                "source.maxRecordsPerCommit; a transaction that is larger needs more memory",
                path=self.uri,
            )

    def _begin_run(self, relation: Relation) -> None:
        if self._relation == relation:
            return
        columns = tuple((column.name, column.type_oid) for column in relation.columns)
        run = Run(columns)
        places = run.numbers_of(self.key)
        if places is None:
            raise ConfigError(
                f"the table has no column {', '.join(self.key)} of recordKey any more: its rows "
                "cannot be known again",
                path=self.uri,
            )
        identity = {column.name for column in relation.columns if column.is_identity}
        if not relation.is_full and not set(self.key) <= identity:
            raise ConfigError(
                f"recordKey is {', '.join(self.key)}, and changes name rows by "
                f"{', '.join(sorted(identity)) or 'nothing'}: make them the same, or alter table "
                f"{relation.schema}.{relation.name} replica identity full; changes that are in the "
                "log already stay as they are: copy the table again (tideline resync)",
                path=self.uri,
            )
        self._relation, self._places = relation, places
        self._last.clear()
        self.runs.append(run)

    def _add(self, change: Change) -> None:
        run, old, new = self.runs[-1], change.old, change.new
        if new is not None and UNCHANGED in new:
            new = self._with_key(new, old)
        key = None if new is None else self._key(new)
        key_before = key if old is None else self._key(old)
        assert key_before is not None, "a change without rows"
        before = self._last.pop(key_before, None)
        if old is not None and key != key_before:
            run.deleted.append(old)
            run.deleted_order.append(self._next_order())
        if new is not None and key is not None:
            if UNCHANGED in new:
                whole = old if self._has_whole_rows else before
                new = new if whole is None else _filled(new, whole)
            if UNCHANGED in new:
                self.unchanged.append((run, len(run.written)))
            self._last[key] = new
            run.written.append(new)
            run.written_order.append(self._next_order())

    def _with_key(self, new: Row, old: Row | None) -> Row:
        """The row with its key: one that is stored apart is in the old row where it is the same."""
        places = [place for place in self._places if new[place] is UNCHANGED]
        if not places:
            return new
        if old is None:
            raise ConfigError(
                "the log leaves out keys that are large and did not change: update the server, or "
                "alter table ... replica identity full, and copy the table again",
                path=self.uri,
            )
        found = list(new)
        for place in places:
            found[place] = old[place]
        return found

    @property
    def _has_whole_rows(self) -> bool:
        is_full = self._relation is not None and self._relation.is_full
        return is_full and self.leaves.are_full

    def _key(self, row: Row) -> tuple[Value | Unchanged, ...]:
        return tuple(row[place] for place in self._places)

    def _next_order(self) -> int:
        self._order += 1
        return self._order

    def _truncate(self) -> None:
        if self.on_truncate is OnTruncate.DELETE:
            self.is_truncated = True
            self.runs = [Run(run.columns) for run in self.runs[-1:]]
            self.unchanged.clear()
            self._last.clear()
        if self.on_truncate is OnTruncate.FAIL:
            raise ConfigError(
                f"the table was truncated in the log before {lsn_text(self.until)}: its rows of "
                "before stay with source.onTruncate: Ignore, and are deleted with Delete",
                path=self.uri,
            )


def _filled(new: Row, before: Row) -> Row:
    """The row with what did not change."""
    return [
        known if isinstance(value, Unchanged) else value
        for value, known in zip(new, before, strict=True)
    ]


def texts_of_rows(columns: Sequence[tuple[str, int]], rows: Sequence[Row]) -> Texts:
    """Rows of these columns, by column."""
    return {
        name: (pa.array(values, pa.binary()).cast(pa.string()), type_oid)
        for (name, type_oid), values in zip(columns, zip(*rows, strict=True), strict=bool(rows))
    }
