"""The leaves of a table of Postgres: its partitions that have rows. Values alone.

1. Changes are in the log by the number of the table. What becomes of a whole partition is not.
2. Rows that a partition has when it is attached are copied, once the log is read to behind that: it
   may have changes of the same keys from before.
3. A partition that is detached or dropped takes its rows along, and a truncate deletes them. A
   partition that is attached again has another `link`, one that was truncated another `file`. So
   has one that was rewritten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tideline.ingest.sources.postgres.lsn import lsn_text, parse_lsn
from tideline.ingest.sources.postgres.pgoutput import Message, Relation


@dataclass(frozen=True, slots=True)
class Leaf:
    """A partition by its number, the file that has its rows, and the transactions that attached it
    and the partitions that it is in."""

    number: int
    file: int
    link: str
    name: str = field(default="", compare=False)
    sql: str = field(default="", compare=False)

    @property
    def place(self) -> tuple[int, str]:
        return self.number, self.link

    def stored(self) -> list[Any]:
        return [self.number, self.file, self.link]

    @classmethod
    def from_stored(cls, content: Any, name: str = "") -> Leaf:
        number, file, link = content
        return cls(int(number), int(file), str(link), name)


@dataclass(frozen=True, slots=True)
class Awaited:
    """A leaf that is copied once the log is read to `lsn`; it is up to the key `copied`."""

    leaf: Leaf
    lsn: int
    copied: tuple[str, ...] = ()

    def stored(self) -> list[Any]:
        return [*self.leaf.stored(), lsn_text(self.lsn), list(self.copied)]

    @classmethod
    def from_stored(cls, content: Any) -> Awaited:
        *leaf, lsn, copied = content
        return cls(Leaf.from_stored(leaf), parse_lsn(lsn), tuple(map(str, copied)))


@dataclass(frozen=True, slots=True)
class Leaves:
    """Those whose rows are `copied`, and those that came since."""

    copied: tuple[Leaf, ...] = ()
    awaited: tuple[Awaited, ...] = ()

    @property
    def all(self) -> tuple[Leaf, ...]:
        return self.copied + tuple(awaited.leaf for awaited in self.awaited)

    def noted(self, found: Sequence[Leaf], at: int, *, keeps_rows: bool) -> Leaves:
        """With those that are `found`, which were all attached before `at`. What became of others
        is passed over if it `keeps_rows`."""
        copied, awaited = self.copied, self.awaited
        if keeps_rows:
            now = {leaf.place: leaf for leaf in found}
            copied = tuple(now[leaf.place] for leaf in copied if leaf.place in now)
            awaited = tuple(
                replace(item, leaf=now[item.leaf.place])
                for item in awaited
                if item.leaf.place in now
            )
        there = {leaf.place for leaf in self.all}
        new = tuple(Awaited(leaf, at) for leaf in found if leaf.place not in there)
        return Leaves(copied, awaited + new)

    def next_to_copy(self, lsn: int) -> Awaited | None:
        """What is copied where the log was read to `lsn`."""
        return next((awaited for awaited in self.awaited if awaited.lsn <= lsn), None)

    def copied_of(self, leaf: Leaf) -> tuple[str, ...] | None:
        """The key up to which rows of a leaf are copied, while they are; empty before."""
        if leaf.place in {item.place for item in self.copied}:
            return None
        here = (item.copied for item in self.awaited if item.leaf.place == leaf.place)
        return next(here, ())

    def copied_up_to(self, leaf: Leaf, key: tuple[str, ...] | None) -> Leaves:
        """Once rows of a leaf are copied up to a key, all where that is None."""
        if key is None:
            others = tuple(item for item in self.awaited if item.leaf.place != leaf.place)
            return Leaves((*self.copied, leaf), others)
        awaited = (
            replace(item, copied=key) if item.leaf.place == leaf.place else item
            for item in self.awaited
        )
        return replace(self, awaited=tuple(awaited))

    def stored(self) -> dict[str, Any]:
        return {
            **({"leaves": [leaf.stored() for leaf in self.copied]} if self.copied else {}),
            **({"awaited": [item.stored() for item in self.awaited]} if self.awaited else {}),
        }

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> Leaves:
        return cls(
            tuple(map(Leaf.from_stored, content.get("leaves", ()))),
            tuple(map(Awaited.from_stored, content.get("awaited", ()))),
        )


NO_LEAVES = Leaves()


@dataclass(slots=True)
class LeavesOfLog:
    """The leaves whose changes a log has by the number of their table. The server describes each of
    them behind the table, before its first change. `new` are those with a first change that counts:
    others were there at a look before."""

    table: int
    new: dict[int, Relation] = field(default_factory=dict)
    are_full: bool = True
    _is_next: bool = False

    def note(self, message: Message | None, *, counts: bool = False) -> None:
        if message is None:
            return
        is_table = isinstance(message, Relation) and message.oid == self.table
        if self._is_next and isinstance(message, Relation) and not is_table:
            # Old rows come whole if those of the leaf do, whatever the table says.
            self.are_full = self.are_full and message.is_full
            if counts:
                self.new[message.oid] = message
        self._is_next = is_table
