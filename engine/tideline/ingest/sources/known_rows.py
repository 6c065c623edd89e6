"""The rows of a source that is read as it is, for a comparison at a position of before.

A kind of source that can give them names a function in its `SourceKind`: `rows_at`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from tideline.ingest.sources.source import Declared, Position, Shape

if TYPE_CHECKING:
    import pyarrow as pa


class Known(IntEnum):
    """What is known of the row of a key at the position."""

    ROW = 0
    """All of it, or that there is none."""
    EXISTS = 1
    """That there is one; its values are not known."""
    NOTHING = 2


@dataclass(frozen=True, slots=True)
class KnownRows:
    """Rows; deletes say that a key has none, or name one where less than the row is known."""

    rows: pa.Table
    known: Known
    records: int = 0
    bad: int = 0


@dataclass(frozen=True, slots=True)
class RowsAt:
    """What a source had: of several `batches` that name a key the last one counts. There are about
    so many `rows`. The source has no columns `lacking` any more. Where the table `keeps_others`, it
    may have rows that the source has not."""

    batches: Iterator[KnownRows]
    rows: int
    lacking: frozenset[str] = frozenset()
    keeps_others: bool = False


RowsAtOf = Callable[[Declared, Position, Shape], AbstractContextManager[RowsAt | None]]
"""None where the source has left the position behind, and the table is to be looked at again."""
