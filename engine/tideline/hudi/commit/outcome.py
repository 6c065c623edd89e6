"""What becomes of a commit: one of three outcomes, each with what its caller has to know.

Committed is visible. Conflicted is not and never will be. Unknown is neither for certain: a request
to make the commit visible was sent, its reply was lost, and the store stayed away. The facade turns
the last two into two different errors, because only one of them is safe to repeat.

A fourth comes from stores that break their promise alone: CompletedByAnother. Only one process
creates an instant, and only that one completes it, unless the store let two create one object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tideline.errors import ConflictError, CorruptTableError, UnknownOutcomeError
from tideline.hudi.commit.conflict import Conflicted
from tideline.hudi.metadata_table.keep import UNTOUCHED, MetadataOutcome
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.wording import counted

_GROUPS_NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class Committed:
    """The write is visible. `metadata_table` is what it did to that of the table."""

    instant: Instant
    metadata: CommitMetadata
    leftovers_deleted: tuple[str, ...] = ()
    metadata_table: MetadataOutcome = UNTOUCHED


@dataclass(frozen=True, slots=True)
class Unknown:
    """The commit of `instant` may be visible, or may become so; nothing it needs was deleted."""

    instant: InstantTime
    reason: str

    def how_to_find_out(self, table: str) -> str:
        """The command that says what became of it."""
        return f"tideline list-instants {table} --instant {self.instant}"


@dataclass(frozen=True, slots=True)
class CompletedByAnother:
    """`instant` of this process is completed, and not by this process. Nothing was undone: the
    files of both writers have the same instant."""

    instant: InstantTime


WriteOutcome: TypeAlias = Committed | Conflicted | Unknown


def conflict_error(outcome: Conflicted, *, table: str, instant: InstantTime) -> ConflictError:
    """The error that says who got in the way, and on which file groups."""
    named = ", ".join(map(str, outcome.file_groups[:_GROUPS_NAMED_MAX]))
    more = len(outcome.file_groups) - _GROUPS_NAMED_MAX
    also = f" and {more} more" if more > 0 else ""
    where = f" on {counted(len(outcome.file_groups), 'file group')}: {named}{also}" if named else ""
    return ConflictError(
        f"a concurrent write conflicts with this one{where}; write again",
        table=table,
        instant=instant,
        value=outcome.other,
    )


def unknown_error(outcome: Unknown, *, table: str, token: str | None = None) -> UnknownOutcomeError:
    """The error that says how to find out, and that simply repeating may double rows."""
    again = f", or repeat it with the same token {token!r}" if token else ""
    return UnknownOutcomeError(
        "it is unknown whether this commit took place: the store went away while it became "
        f"visible ({outcome.reason}). Do not simply repeat it; ask "
        f"`{outcome.how_to_find_out(table)}`{again}",
        table=table,
        instant=outcome.instant,
    )


def foreign_completion_error(outcome: CompletedByAnother, *, table: str) -> CorruptTableError:
    """The error that says that the store is at fault, and how to find out."""
    return CorruptTableError(
        "another writer completed the instant of this one: the store let both create the same "
        "object, and rows of this write may be in the table, or missing. Run "
        f"`tideline check-store {table}`, move the table to a store that passes, and compare its "
        "rows with what was written",
        table=table,
        instant=outcome.instant,
    )
