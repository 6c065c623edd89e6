"""What a source still has of the rows that a table has taken from it, to be read again.

A kind of source that can say so names a function in its `SourceKind`. It is given the source, what
it has now, the position of the table, and the commits that took it in, as far as they are known. A
source of records gives those up to the position; a source of rows could give the rows at it, each
key once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tideline.ingest.sources.source import Available, Declared, Lost, Position, Range


@dataclass(frozen=True, slots=True)
class TakenIn:
    """A commit of an ingest: its instant, its number among those of the ingest, the position behind
    it, and the names of the parts that it took in, which are not all where `is_cut`."""

    instant: str
    generation: int
    position: Position
    names: tuple[str, ...] = ()
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class ReplayRange:
    """A range to read again. `instant` is the commit that took it in, the oldest of several; empty
    where nobody knows."""

    range: Range
    instant: str = ""


@dataclass(frozen=True, slots=True)
class Replay:
    """`ranges` have one part each, or parts of one commit. Those of one part, and those whose
    commits are known, are in the order of arrival. Of a key with rows in several others the order
    is not known.

    `gone` says what the table has read and the source has no more, empty where it has all. Of what
    comes behind a position `keeps_after` says whether all is there; the commits `whole` are. Where
    what is gone may have come behind what is there, `gone_until` is the newest commit that had any
    of it. `rows` is how many rows there may be at most; or about, where they are not `is_counted`.
    `joined` makes one range of several that follow each other, None where it is better not to.
    """

    ranges: tuple[ReplayRange, ...]
    gone: tuple[str, ...]
    keeps_after: Callable[[Position], bool]
    rows: int
    is_counted: bool = True
    whole: frozenset[str] = frozenset()
    gone_until: str = ""
    joined: Callable[[Sequence[Range]], Range | None] = lambda _: None


History = Callable[[], Iterator[TakenIn]]
"""The commits of an ingest, the newest first, as far back as the table knows them."""

ReplayOf = Callable[[Declared, Available, Position, History], Replay | Lost]
