"""How far a table has read a table of Postgres.

1. Once there is a slot, nothing is copied yet. Earlier releases did not note `lsn` then.
2. While the first copy is made, `lsn` is where the log is read from, and `copied` the last key.
3. Then `lsn` is where the log was read to, and `copied` is None.

A table that is copied again is ahead of 1 until the slot is known to be there, and between 2 and 3
until rows are deleted that the source has no more. Of a table with partitions it has those whose
rows are copied, and those that are copied next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from tideline.ingest.sources.postgres.leaves import NO_LEAVES, Leaves
from tideline.ingest.sources.postgres.lsn import lsn_text, parse_lsn

KIND = "postgres"

Key = tuple[str, ...]
"""Values of the columns of a key, as the server writes them; empty before the first one."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The table that is read, in its database. A server that was promoted has another timeline; a
    table that was created again has another number. So has its entry in a publication, if it was
    taken out meanwhile: 0 without one. A publication that was altered has another version, 0 where
    none was noted. What was read of the one says nothing of the other. One that `is_narrowed` has
    some rows or columns of the table. `placed` is when a table that is published by its schema came
    into that, 0 where it is not noted.
    """

    system: str
    timeline: int
    table: int
    entry: int = 0
    version: int = 0
    is_narrowed: bool = field(default=False, compare=False)
    placed: int = field(default=0, compare=False)

    @property
    def table_alone(self) -> Origin:
        """Whatever the publication."""
        return replace(self, entry=0, version=0)

    def agrees_with(self, found: Origin) -> bool:
        """Whether what was read of this is what is `found` now."""
        stayed = self.placed == found.placed or 0 in (self.placed, found.placed)
        return stayed and self == (found if self.version else replace(found, version=0))

    def stored(self) -> list[Any]:
        stored = [self.system, self.timeline, self.table, self.entry, self.version]
        more = [int(self.is_narrowed), self.placed] if self.placed else [1]
        return [*stored, *more] if self.is_narrowed or self.placed else stored

    @classmethod
    def from_stored(cls, content: Any) -> Origin:
        system, *numbers = content
        timeline, table, entry, *more = map(int, numbers)
        version, is_narrowed, placed = (*more, 0, 0, 0)[:3]
        return cls(str(system), timeline, table, entry, version, bool(is_narrowed), placed)


@dataclass(frozen=True, slots=True)
class LastChange:
    """The newest transaction of the log whose changes a table took in: where its commit is, and
    when that was, in the server's microseconds. Without a time, 0, it is the place where the log
    was first read from: what was there before counts for nothing."""

    lsn: int
    time_us: int = 0

    def agrees_with(self, before: LastChange | None, since: int) -> bool:
        """Whether `before` is the newest change that the log has now where the table has read it,
        of a log that is seen `since` a place."""
        if before is None or before.lsn < self.lsn:
            return not self.time_us or self.lsn < since
        return before.lsn == self.lsn and self.time_us in (0, before.time_us)


class Phase(Enum):
    """What comes next: the slot of a table that is copied again, a copy, the deletion of rows that
    the source has no more, the log."""

    AGAIN = "again"
    COPY = "copy"
    SWEEP = "sweep"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class CopiedAgain:
    """A copy into a table that has rows. Those that were last written at the instant `since` or
    before, and not by the copy, are deleted behind it. Changes before `lsn` are in the copy."""

    since: str
    lsn: int


@dataclass(frozen=True, slots=True)
class PostgresPosition:
    """See the module's text. `last` is None where an earlier release did not note it."""

    origin: Origin
    lsn: int | None = None
    copied: Key | None = ()
    again: CopiedAgain | None = None
    leaves: Leaves = NO_LEAVES
    last: LastChange | None = None

    @property
    def kind(self) -> str:
        return KIND

    @property
    def needs_whole_look(self) -> bool:
        return False

    @property
    def phase(self) -> Phase:
        if self.copied is not None:
            return Phase.COPY
        if self.again is None:
            return Phase.LOG
        return Phase.AGAIN if self.lsn is None else Phase.SWEEP

    def __str__(self) -> str:
        if self.again is None:
            return self._words
        return f"copied again: {self._words}"

    @property
    def _words(self) -> str:
        if self.lsn is None or self.copied == ():
            return "nothing copied yet"
        if self.copied is not None:
            return f"the copy behind key ({', '.join(self.copied)})"
        if self.phase is Phase.SWEEP:
            return "rows of before are still there"
        return lsn_text(self.lsn)

    def stored(self) -> dict[str, Any]:
        again, last = self.again, self.last
        return {
            "origin": self.origin.stored(),
            "lsn": None if self.lsn is None else lsn_text(self.lsn),
            "copied": None if self.copied is None else list(self.copied),
            **({} if again is None else {"copiedAgain": [again.since, lsn_text(again.lsn)]}),
            **self.leaves.stored(),
            **({} if last is None else {"last": [lsn_text(last.lsn), last.time_us]}),
        }

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> PostgresPosition:
        """Raises ValueError, KeyError or TypeError where it is none."""
        lsn, copied, again = content["lsn"], content["copied"], content.get("copiedAgain")
        last = content.get("last")
        return cls(
            Origin.from_stored(content["origin"]),
            None if lsn is None else parse_lsn(lsn),
            None if copied is None else tuple(str(value) for value in copied),
            None if again is None else CopiedAgain(str(again[0]), parse_lsn(again[1])),
            Leaves.from_stored(content),
            None if last is None else LastChange(parse_lsn(last[0]), int(last[1])),
        )
