"""What a source gives for a comparison: records that are read again, or its rows as they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa

from tideline.errors import ConfigError
from tideline.ingest.execute.in_process import batch_bytes_max
from tideline.ingest.operation.operation import IngestRange
from tideline.ingest.sources.kinds import SourceKind, kind_named
from tideline.ingest.sources.known_rows import Known, RowsAt
from tideline.ingest.sources.replay import Replay
from tideline.ingest.sources.source import (
    Available,
    Declared,
    ForSpark,
    Limits,
    Lost,
    Position,
    Shape,
    Source,
)


class GivenBatch(NamedTuple):
    """Rows of a part of the source, deletes marked, and how much is known of them."""

    rows: pa.Table
    part: int
    known: Known


class Given(Protocol):
    """The rows of a source up to a position. Counts are final once all `batches` were read."""

    records: int
    bad: int

    @property
    def rows(self) -> int:
        """How many there are at most, or about."""

    @property
    def gone(self) -> tuple[str, ...]:
        """What the source has no more."""

    @property
    def lacking(self) -> frozenset[str]:
        """Columns that it has no more."""

    @property
    def has_gaps(self) -> bool:
        """Whether records of any age may be gone."""

    @property
    def lost_early(self) -> bool:
        """Whether the table may rightly have rows that the source has not."""

    @property
    def is_folded(self) -> bool:
        """Whether a key has all its records, and not one row."""

    def batches(self) -> Iterator[GivenBatch]: ...

    def keeps_after(self, position: Position) -> bool:
        """Whether all that came behind a position is there."""


def require_comparable(declared: Declared) -> None:
    """Raises ConfigError for a kind of source that gives nothing to compare with."""
    kind = kind_named(declared.kind)
    if kind.replay is None and kind.rows_at_of is None:
        raise ConfigError(
            f"{declared.content} that {declared.whereabouts} had are not read again; topics of "
            "Kafka and tables of Postgres are",
            path=declared.uri,
        )


@contextmanager
def given_rows(
    work: IngestRange,
    available: Available,
    position: Position,
    first: Position | None,
    shape: Shape,
) -> Iterator[Given | None]:
    """What the source of an ingest gives up to a position of the table; `first` is that of its
    first commit. None where the source has left it behind meanwhile. Raises ConfigError."""
    declared = work.source
    kind = kind_named(declared.kind)
    if kind.rows_at_of is not None:
        found = available.plan(position, Limits(1, 0))
        if isinstance(found, Lost):
            raise ConfigError(str(found), path=declared.uri)
        with kind.rows_at_of(declared, position, shape) as rows:
            yield None if rows is None else _AsTheyAre(rows)
        return
    replay = _replay(kind, work, available, position, first)
    yield _ReadAgain(kind.open(declared), shape, replay)


def _replay(
    kind: SourceKind,
    work: IngestRange,
    available: Available,
    position: Position,
    first: Position | None,
) -> Replay:
    declared = work.source
    assert kind.replay is not None
    found = kind.replay(declared, available, position, first)
    if isinstance(found, Lost):
        raise ConfigError(str(found), path=declared.uri)
    return found


@dataclass(slots=True)
class _ReadAgain:
    """Records, range by range."""

    source: Source
    shape: Shape
    replay: Replay
    records: int = 0
    bad: int = 0

    @property
    def rows(self) -> int:
        return self.replay.rows

    @property
    def gone(self) -> tuple[str, ...]:
        return self.replay.gone

    @property
    def lacking(self) -> frozenset[str]:
        return frozenset()

    @property
    def has_gaps(self) -> bool:
        return self.records < self.replay.rows

    @property
    def lost_early(self) -> bool:
        return bool(self.replay.gone)

    @property
    def is_folded(self) -> bool:
        return True

    def batches(self) -> Iterator[GivenBatch]:
        parts: dict[str, int] = {}
        for taken in self.replay.ranges:
            found = self.source.read(taken, self.shape, batch_bytes_max())
            if isinstance(found, ForSpark):
                raise ConfigError(f"the source cannot be compared: {found.reason}")
            self.records += found.records
            self.bad += len(found.bad.files) + sum(map(len, found.bad.rows.values()))
            part = parts.setdefault(taken.names[0], len(parts))
            yield GivenBatch(found.table, part, Known.ROW)

    def keeps_after(self, position: Position) -> bool:
        return not self.has_gaps and self.replay.keeps_after(position)


@dataclass(slots=True)
class _AsTheyAre:
    """Rows of a source that has each key once."""

    found: RowsAt
    records: int = 0
    bad: int = 0

    @property
    def rows(self) -> int:
        return self.found.rows

    @property
    def gone(self) -> tuple[str, ...]:
        return tuple(f"column {name}" for name in sorted(self.found.lacking))

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
    def is_folded(self) -> bool:
        return False

    def batches(self) -> Iterator[GivenBatch]:
        for batch in self.found.batches:
            self.records += batch.records
            self.bad += batch.bad
            yield GivenBatch(batch.rows, 0, batch.known)

    def keeps_after(self, position: Position) -> bool:  # noqa: ARG002
        return False
