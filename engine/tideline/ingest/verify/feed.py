"""One ingest of a comparison: what it is, how far it has read, and how its rows are those of the
table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tideline.errors import ConfigError
from tideline.ingest.execute.ingest_batch import IngestBatch
from tideline.ingest.execute.table_access import Progress
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.kinds import SourceKind, kind_named
from tideline.ingest.sources.own_reach import own_reach
from tideline.ingest.sources.replay import Replay, TakenIn
from tideline.ingest.sources.source import Available, Limits, Lost
from tideline.ingest.verify.history import commits_of
from tideline.ingest.verify.keyed_rows import KeyedRows
from tideline.ingest.verify.table_state import TableState


class SourceLostError(ConfigError):
    """The source is not what the table has read, or was left behind meanwhile."""


@dataclass(frozen=True, slots=True)
class Feed:
    """An ingest with its `checkpoint`, of a source that holds what is `available`."""

    work: IngestRange
    state: TableState
    checkpoint: Checkpoint
    available: Available
    batch: IngestBatch
    keyed: KeyedRows

    @classmethod
    def of(cls, operation: Operation, state: TableState, progress: Progress) -> Feed:
        """Looks at the source. Raises ConfigError where it is another one than was read."""
        work = operation.ingest
        declared, checkpoint = work.source, state.checkpoints[work.name]
        _require_address(operation, work, checkpoint)
        reach = replace(own_reach(), compares=True)
        available = declared.positions(reach, checkpoint.position)
        left = declared.no_range()
        checkpoints = {work.name: checkpoint}
        batch = IngestBatch(operation, work, left, state.table, checkpoints, available, progress)
        return cls(work, state, checkpoint, available, batch, state.keyed(operation))

    @property
    def kind(self) -> SourceKind:
        return kind_named(self.work.source.kind)

    def history(self) -> Iterator[TakenIn]:
        """Its commits, the newest first."""
        return commits_of(self.state, self.work, self.checkpoint)

    def replay(self) -> Replay:
        """What is to be read again. Raises ConfigError where it is not what was read."""
        replay, declared = self.kind.replay, self.work.source
        assert replay is not None
        found = replay(declared, self.available, self.checkpoint.position, self.history)
        if isinstance(found, Lost):
            raise SourceLostError(str(found), path=declared.uri)
        return found

    def require_read(self) -> None:
        """Raises SourceLostError where what comes behind the position is not what it was: of rows
        as they are only that says what they were."""
        found = self.available.plan(self.checkpoint.position, Limits(1, 0))
        if isinstance(found, Lost):
            raise SourceLostError(str(found), path=self.work.source.uri)


def _require_address(operation: Operation, work: IngestRange, checkpoint: Checkpoint) -> None:
    kind, uri = kind_named(work.source.kind), operation.table.location.uri
    if kind.replay is None or kind.position_names_source:
        return
    address = work.source.address(uri)
    if checkpoint.address not in ("", address):
        message = f"ingest {work.name} has read {checkpoint.address}, and its source is another now"
        raise ConfigError(message, table=uri, value=address)
