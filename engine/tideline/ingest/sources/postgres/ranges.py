"""What one commit takes in of a table of Postgres: the making of a slot, a span of keys, or a span
of the log; and the begin and the end of a copy into a table that has rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from tideline.ingest.sources.postgres.leaves import Leaf
from tideline.ingest.sources.postgres.lsn import lsn_text, parse_lsn
from tideline.ingest.sources.postgres.position import Key, LastChange, Origin
from tideline.ingest.sources.source import Range

SLOT = "slot"


class Again(Enum):
    """Steps of a copy into a table that has rows."""

    BEGIN = "copy again"
    SLOT = SLOT
    SWEEP = "rows that the source has no more"


@dataclass(frozen=True, slots=True)
class Keys:
    """Rows behind the key `after`, up to `until`; to the last one where that is None."""

    after: Key
    until: Key | None

    def __str__(self) -> str:
        end = "the last key" if self.until is None else f"key ({', '.join(self.until)})"
        return f"copy up to {end}"


@dataclass(frozen=True, slots=True)
class PostgresRange:
    """`lsn` is where the log was read to before it; None where the slot is to be made. Once it is
    there for other tables as well, that range has the `lsn` behind which this one reads.

    `until` is where a span of the log ends: with a transaction, or anywhere behind the last one.
    One that `is_unseen` may have more changes than a commit takes in: then it ends earlier. It may
    end behind the log that there is; with `only_rows` it is no commit where it has none. `keys`
    is a span of a copy, of one `leaf` where that was attached later.
    A step of a copy `again` is of rows last written at the instant `since` or before, which is read
    as it begins; its last one `is_whole`. The `last` change of a span of the log is known once it
    was read.
    """

    origin: Origin | None = None
    lsn: int | None = None
    until: int | None = None
    keys: Keys | None = None
    again: Again | None = None
    since: str = ""
    is_whole: bool = False
    is_unseen: bool = False
    only_rows: bool = False
    leaf: Leaf | None = None
    last: LastChange | None = None

    @property
    def name(self) -> str:
        if self.again is not None:
            return self.again.value
        if self.keys is not None:
            return str(self.keys) if self.leaf is None else f"{self.leaf.name}: {self.keys}"
        return SLOT if self.until is None else f"log up to {lsn_text(self.until)}"

    @property
    def names(self) -> tuple[str, ...]:
        return () if self.origin is None else (self.name,)

    @property
    def size_bytes(self) -> int:
        """Only reading shows it."""
        return 0

    @property
    def start(self) -> str:
        """Every look is whole."""
        return ""

    @property
    def notes(self) -> tuple[str, ...]:
        return ()

    def only(self, names: Collection[str]) -> PostgresRange:
        return self if self.name in names else PostgresRange()

    def limited(self, bytes_max: int) -> PostgresRange:  # noqa: ARG002
        """The whole range: `maxRecordsPerCommit` limits it."""
        return self

    def stored(self) -> dict[str, Any]:
        return {
            "origin": None if self.origin is None else self.origin.stored(),
            "lsn": None if self.lsn is None else lsn_text(self.lsn),
            "until": None if self.until is None else lsn_text(self.until),
            "keys": None if self.keys is None else [self.keys.after, self.keys.until],
            **({} if self.again is None else {"again": [self.again.value, self.since]}),
            **({"isUnseen": True} if self.is_unseen else {}),
            **({"onlyRows": True} if self.only_rows else {}),
            **({"leaf": [self.leaf.stored(), self.leaf.name]} if self.leaf else {}),
        }

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> PostgresRange:
        origin, lsn, until, keys = (content[name] for name in ("origin", "lsn", "until", "keys"))
        again, leaf = content.get("again"), content.get("leaf")
        found = cls(
            None if origin is None else Origin.from_stored(origin),
            None if lsn is None else parse_lsn(lsn),
            None if until is None else parse_lsn(until),
            None if keys is None else Keys(_key(keys[0]), keys[1] and _key(keys[1])),
            *((Again(again[0]), str(again[1])) if again else ()),
        )
        return replace(
            found,
            is_unseen=bool(content.get("isUnseen")),
            only_rows=bool(content.get("onlyRows")),
            leaf=Leaf.from_stored(leaf[0], str(leaf[1])) if leaf else None,
        )


def postgres_range_of(planned: Range) -> PostgresRange:
    """A range of another kind is a mistake of the caller."""
    assert isinstance(planned, PostgresRange)
    return planned


def _key(values: Any) -> Key:
    return tuple(str(value) for value in values)
