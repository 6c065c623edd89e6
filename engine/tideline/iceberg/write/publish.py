"""The commit of a write, and what becomes of its new files by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from tideline.clock import Clock
from tideline.errors import TidelineError, UnknownOutcomeError
from tideline.iceberg.metadata.owner import refuse_publication
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import (
    Committed,
    Conflicted,
    Unknown,
    unknown_error,
)
from tideline.iceberg.write.row_change import EarlierWrite, RowChange, commit_change
from tideline.iceberg.write.write_request import IcebergWrite, IcebergWritten
from tideline.iceberg.write.write_settings import WriteSettings


class Written(Protocol):
    """Files of one write that no snapshot lists yet."""

    def discard(self) -> None:
        """Remove them, as far as the store lets it."""


def earlier_write(table: IcebergTable, write: IcebergWrite) -> IcebergWritten | None:
    """The same write if it took place already, by its token, in the newest state of the table.

    Raises UnsupportedTableError for a table that a Hudi table is published as, and ConfigError.
    """
    metadata = table.refresh()
    refuse_publication(metadata)
    earlier = write.earlier(metadata)
    return None if earlier is None else IcebergWritten(earlier, write.operation, is_repeat=True)


def publish(
    table: IcebergTable,
    write: IcebergWrite,
    change: RowChange,
    files: Sequence[Written],
    settings: WriteSettings,
    clock: Clock,
    *,
    may_repeat: Sequence[Written] | None = None,
) -> IcebergWritten | Conflicted:
    """Commit a change; its new files are removed where they are certainly of no use. Conflicted:
    the change has to be made again, with others in the places of those that `may_repeat` names,
    which are removed.

    Raises UnknownOutcomeError, and what the commit raises.
    """
    try:
        outcome = commit_change(table.operations, write, change, settings, clock=clock)
    except TidelineError:
        # Of anything else, an interrupt say, it is not known what had been published by then.
        _discard(files)
        raise
    match outcome:
        case Committed(loaded, snapshot_id):
            table.take(loaded)
            made = None if snapshot_id is None else loaded.metadata.snapshot(snapshot_id)
            assert made is not None, "a commit of rows makes a snapshot"
            return IcebergWritten(made, write.operation)
        case EarlierWrite(snapshot):
            _discard(files)
            return IcebergWritten(snapshot, write.operation, is_repeat=True)
        case Conflicted():
            _discard(files if may_repeat is None else may_repeat)
            return outcome
        case Unknown() as unknown:
            raise _unknown(unknown, write, table.metadata.location)


@contextmanager
def of_table(location: str) -> Iterator[None]:
    """Names the table in errors about rows."""
    try:
        yield
    except TidelineError as error:
        error.table = error.table or location
        raise


@contextmanager
def discarded_on_failure(*files: Written) -> Iterator[None]:
    """Removes files where writing them fails or is interrupted."""
    try:
        yield
    except BaseException:
        _discard(files)
        raise


def _discard(files: Iterable[Written]) -> None:
    for written in files:
        written.discard()


def _unknown(outcome: Unknown, write: IcebergWrite, place: str) -> TidelineError:
    error = unknown_error(outcome, table=place, what="the rows are written")
    if write.token is None or not isinstance(error, UnknownOutcomeError):
        return error
    return UnknownOutcomeError(
        f"it is unknown whether the rows are written: {outcome.reason}. Write again with the same "
        "token: they are never written twice",
        table=place,
        instant=outcome.snapshot_id,
    )
