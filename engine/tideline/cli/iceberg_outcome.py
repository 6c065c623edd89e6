"""What commands for Iceberg tables make of a commit: done, or an error with its exit code."""

from __future__ import annotations

from tideline.errors import ConflictError
from tideline.iceberg.table.table_operations import (
    CommitOutcome,
    Committed,
    Conflicted,
    Unknown,
    unknown_error,
)


def committed_location(outcome: CommitOutcome | None, *, table: str) -> str | None:
    """The new metadata's location, None when there was nothing to commit.

    Raises ConflictError when other writers were always first, UnknownOutcomeError when nobody
    knows.
    """
    match outcome:
        case Committed(loaded):
            return loaded.metadata_location
        case Conflicted(reason):
            raise ConflictError(f"Not committed: {reason}", table=table)
        case Unknown() as unknown:
            raise unknown_error(unknown, table=table, what="the commit took place")
    return None
