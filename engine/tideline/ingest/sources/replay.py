"""What a source still has of the rows that a table has taken from it, to be read again.

A kind of source that can say so names a function in its `SourceKind`. It is given the source, what
it has now, the position of the table, and that of the table's first commit, None where it is not
known any more. A source of records gives those up to the position; a source of rows could give the
rows at it, each key once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tideline.ingest.sources.source import Available, Declared, Lost, Position, Range


@dataclass(frozen=True, slots=True)
class Replay:
    """`ranges` have one part each; those of one part are in the order of arrival. Of a key with
    rows in several parts the order is not known.

    `gone` says what the table has read and the source has no more, empty where it has all. Of what
    comes behind a position `keeps_after` says whether all is there. `rows` is how many rows there
    may be at most.
    """

    ranges: tuple[Range, ...]
    gone: tuple[str, ...]
    keeps_after: Callable[[Position], bool]
    rows: int


ReplayOf = Callable[[Declared, Available, Position, Position | None], Replay | Lost]
