"""What becomes of a file group that an engine was to rewrite."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.services.rewrite_data_files.execute import RewriteContext
from tideline.iceberg.services.rewrite_data_files.plan import FileGroup
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
    ) -> Generator[GroupOutcome]:
        """One outcome per group, those of `groups_per_job` neighbours (None: of all) together.

        When it is closed, new files of groups that were not answered yet are removed.
        """


def group_outcomes(
    io: FileIO,
    groups: Sequence[FileGroup],
    answers: Sequence[tuple[int, tuple[DataFile, ...] | Exception]],
) -> Generator[GroupOutcome]:
    """What the parts of each group came to, put together.

    New files of a group that failed are removed, and so are those of groups that are not asked for.
    """
    waiting = {group.index for group in groups}
    try:
        for outcome in _put_together(io, groups, answers):
            waiting.remove(outcome.index)
            yield outcome
    except BaseException:
        written = [answer for index, answer in answers if index in waiting]
        files = (file for answer in written if isinstance(answer, tuple) for file in answer)
        io.remove_written(file.file_path for file in files)
        raise


def _put_together(
    io: FileIO,
    groups: Sequence[FileGroup],
    answers: Sequence[tuple[int, tuple[DataFile, ...] | Exception]],
) -> Iterator[GroupOutcome]:
    for group in groups:
        found = [answer for index, answer in answers if index == group.index]
        added = tuple(file for answer in found if isinstance(answer, tuple) for file in answer)
        failed = next((answer for answer in found if isinstance(answer, Exception)), None)
        if failed is None:
            yield GroupResult(group.index, added)
        else:
            io.remove_written(file.file_path for file in added)
            yield GroupFailed(group.index, failed)
