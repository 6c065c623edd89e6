"""What becomes of a file group that an engine was to rewrite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.rewrite.execute import RewriteContext, write_group
from tideline.iceberg.rewrite.plan import FileGroup
from tideline.iceberg.table.file_io import FileIO


@dataclass(frozen=True, slots=True)
class GroupResult:
    """A group is written: these files hold its rows."""

    index: int
    added: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class GroupFailed:
    """A group could not be written; none of its new files remains, unless its process died."""

    index: int
    error: Exception


GroupOutcome: TypeAlias = GroupResult | GroupFailed


class RewriteEngine(Protocol):
    """Rewrites file groups, somewhere."""

    def __call__(
        self,
        io: FileIO,
        context: RewriteContext,
        groups: Sequence[FileGroup],
        *,
        groups_per_job: int | None = None,
    ) -> Iterator[GroupOutcome]:
        """One outcome per group, those of `groups_per_job` neighbours (None: of all) together."""
        ...


def write_groups_here(
    io: FileIO,
    context: RewriteContext,
    groups: Sequence[FileGroup],
    *,
    groups_per_job: int | None = None,  # noqa: ARG001
) -> Iterator[GroupOutcome]:
    """The engine without Spark: one group after the other in this process."""
    for group in groups:
        try:
            added = write_group(io, context, group)
        except Exception as error:
            yield GroupFailed(group.index, error)
        else:
            yield GroupResult(group.index, added)
