"""What sources give for a comparison: records that are read again, or rows as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa

from tideline.errors import ConfigError
from tideline.ingest.execute.table_access import SessionFactory
from tideline.ingest.sources.known_rows import RowsAt
from tideline.ingest.sources.replay import Replay
from tideline.ingest.sources.source import Range
from tideline.ingest.verify.feed import Feed
from tideline.ingest.verify.history import foreign_commits, whole_commits
from tideline.ingest.verify.range_rows import RangeRows

_ANY_TIME = "~"
"""Behind every instant."""


class Read(NamedTuple):
    """How much of a feed was read, and what its source has no more."""

    records: int
    bad: int
    gone: tuple[str, ...]


class Given(Protocol):
    """The rows of sources up to the positions of a table. What is counted, and what is gone, is
    final once all `batches` were read."""

    @property
    def rows(self) -> int:
        """How many there are at most, or about."""

    @property
    def lacking(self) -> frozenset[str]:
        """Columns that the source has no more."""

    @property
    def has_gaps(self) -> bool:
        """Whether records of any age may be gone."""

    @property
    def lost_early(self) -> bool:
        """Whether the table may rightly have rows that the source has not."""

    @property
    def gone_until(self) -> str:
        """The newest commit with something that is gone and may have come behind what is there;
        empty where all that is gone came before."""

    @property
    def is_folded(self) -> bool:
        """Whether a key has all its records, and not one row."""

    def batches(self, folder: Path) -> Iterator[pa.Table]:
        """Rows as the table would store them; the folder is for what does not stay in memory."""

    def read(self) -> list[Read]:
        """By feed."""

    def certain(self) -> frozenset[str]:
        """Commits whose rows cannot be of anything that is gone."""


@contextmanager
def given_rows(feeds: Sequence[Feed], session_factory: SessionFactory) -> Iterator[Given | None]:
    """What the sources give up to the positions of the table. None where one has left its position
    behind meanwhile. Raises ConfigError."""
    as_they_are = [feed for feed in feeds if feed.kind.rows_at_of is not None]
    if not as_they_are:
        replays = [_Again(feed, feed.replay(), session_factory) for feed in feeds]
        try:
            yield _ReadAgain(replays)
        finally:
            for replay in replays:
                replay.reader.source.release()
        return
    feed = as_they_are[0]
    declared, position = feed.work.source, feed.checkpoint.position
    if len(feeds) > 1:
        message = f"rows of {declared.kind} are not compared together with those of other ingests"
        raise ConfigError(message, table=feed.state.uri, value=feed.work.name)
    feed.require_read()
    rows_at = feed.kind.rows_at_of
    assert rows_at is not None
    with rows_at(declared, position, feed.batch.shape(frozenset())) as rows:
        yield None if rows is None else _AsTheyAre(feed, rows)


class _Stretch(NamedTuple):
    """A range of the feed of that number; its part, and the oldest commit that took it in."""

    feed: int
    range: Range
    part: int
    when: str


@dataclass(slots=True)
class _Again:
    """A feed that is read again, and its reader."""

    feed: Feed
    replay: Replay
    session_factory: SessionFactory
    reader: RangeRows = field(init=False)
    torn: set[str] = field(default_factory=set)
    """Commits with parts that cannot be read."""

    def __post_init__(self) -> None:
        source = self.feed.kind.open(self.feed.work.source)
        self.reader = RangeRows(self.feed, source, self.session_factory)

    @property
    def gone(self) -> tuple[str, ...]:
        return (*self.replay.gone, *map(": ".join, self.reader.unreadable.items()))

    @property
    def gone_until(self) -> str:
        return max(self.replay.gone_until, *self.torn, "")


@dataclass(slots=True)
class _ReadAgain:
    """Records, range by range: first those whose order with others is not known, then the others in
    the order of the commits, whatever ingest they are of."""

    again: list[_Again]

    @property
    def rows(self) -> int:
        return sum(item.replay.rows for item in self.again)

    @property
    def lacking(self) -> frozenset[str]:
        return frozenset()

    @property
    def has_gaps(self) -> bool:
        return any(
            item.replay.is_counted and item.reader.records < item.replay.rows for item in self.again
        )

    @property
    def lost_early(self) -> bool:
        return any(item.gone for item in self.again) or self._only_deletes

    @property
    def gone_until(self) -> str:
        found = ""
        is_bag = all(item.feed.keyed.is_bag or item.feed.keyed.deletes_only for item in self.again)
        for item in self.again:
            # Rows that are only inserted take no place of others.
            if item.gone and not (is_bag and item.feed.keyed.is_bag):
                is_early = not item.gone_until
                found = max(found, item.gone_until)
                found = _ANY_TIME if is_early and len(self.again) > 1 else found
        return found

    @property
    def is_folded(self) -> bool:
        return True

    def batches(self, folder: Path) -> Iterator[pa.Table]:
        for stretch in self._stretches():
            item = self.again[stretch.feed]
            unreadable = len(item.reader.unreadable)
            yield from item.reader.keyed(stretch.range, stretch.part, stretch.when, folder)
            if len(item.reader.unreadable) > unreadable:
                item.torn.add(self._newest(stretch))

    def read(self) -> list[Read]:
        return [Read(item.reader.records, item.reader.bad, item.gone) for item in self.again]

    def certain(self) -> frozenset[str]:
        state = self.again[0].feed.state
        found = foreign_commits(state, [item.feed.work for item in self.again])
        for item in self.again:
            newest = max(item.torn, default="")
            found |= {instant for instant in item.replay.whole if instant > newest}
            if not self.has_gaps:
                found |= whole_commits(state, item.feed.work, item.replay.keeps_after)
        return found

    @property
    def _only_deletes(self) -> bool:
        """Whether the rows of the table are of another writer."""
        return all(item.feed.keyed.deletes_only for item in self.again)

    def _newest(self, stretch: _Stretch) -> str:
        """A bound of the commits that a stretch is of."""
        ranges = self.again[stretch.feed].replay.ranges
        names = set(stretch.range.names)
        instants = (item.instant for item in ranges if names & set(item.range.names))
        return max(instants) or _ANY_TIME

    def _stretches(self) -> Iterator[_Stretch]:
        parts: dict[tuple[int, str], int] = {}
        known: list[_Stretch] = []
        for number, item in enumerate(self.again):
            for replayed in item.replay.ranges:
                if replayed.instant:
                    known.append(_Stretch(number, replayed.range, 0, replayed.instant))
                else:
                    part = parts.setdefault((number, replayed.range.names[0]), len(parts) + 1)
                    yield _Stretch(number, replayed.range, part, "")
        until = self.gone_until
        known.sort(key=lambda stretch: stretch.when)
        for _, group in groupby(known, key=lambda found: (found.feed, found.when > until)):
            yield from self._joined(group)

    def _joined(self, group: Iterator[_Stretch]) -> Iterator[_Stretch]:
        """As few ranges as possible, for each costs a look and perhaps a job of Spark."""
        chosen = next(group)
        for stretch in group:
            joined = self.again[chosen.feed].replay.joined((chosen.range, stretch.range))
            if joined is None:
                yield chosen
                chosen = stretch
            else:
                chosen = chosen._replace(range=joined)
        yield chosen


@dataclass(slots=True)
class _AsTheyAre:
    """Rows of a source that has each key once."""

    feed: Feed
    found: RowsAt
    records: int = 0
    bad: int = 0

    @property
    def rows(self) -> int:
        return self.found.rows

    @property
    def lacking(self) -> frozenset[str]:
        return self.found.lacking

    @property
    def has_gaps(self) -> bool:
        return False

    @property
    def lost_early(self) -> bool:
        return self.found.keeps_others

    @property
    def gone_until(self) -> str:
        return ""

    @property
    def is_folded(self) -> bool:
        return False

    def batches(self, folder: Path) -> Iterator[pa.Table]:  # noqa: ARG002
        for batch in self.found.batches:
            self.records += batch.records
            self.bad += batch.bad
            if batch.rows.num_rows:
                yield self.feed.keyed.of_source(batch.rows, 0, batch.known)

    def read(self) -> list[Read]:
        gone = tuple(f"column {name}" for name in sorted(self.found.lacking))
        return [Read(self.records, self.bad, gone)]

    def certain(self) -> frozenset[str]:
        return foreign_commits(self.feed.state, [self.feed.work])
