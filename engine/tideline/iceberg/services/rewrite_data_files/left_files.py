"""Why a rewrite takes files or leaves them, and what it has left.

A data file that is not in Parquet, or whose rows are deleted by a file that is not, is left by
name, and so is an encrypted one; its deletes stay with it. Where a column has a type that is not
rewritten (variant, geometry, geography), all files are left.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.scan.task import FileScanTask
from tideline.wording import counted

NAMED_MAX = 100
_NAMED_IN_WORDS = 3


class Reason(Enum):
    """Why a group is rewritten, or why files are left as they are."""

    REWRITE_ALL = "all files are to be rewritten"
    ENOUGH_FILES = "enough files of the wrong size"
    ENOUGH_BYTES = "enough bytes for a file of the target size"
    TOO_LARGE = "more bytes than one file may have"
    DELETE_FILES = "a file with as many delete files as the threshold"
    DELETE_RATIO = "a file with as many deleted rows as the threshold"
    RIGHT_SIZE = "the right size, and few deletes"
    TOO_LITTLE = "too few files and bytes to gain anything"
    BEYOND_LIMIT = "beyond max-files-to-rewrite"
    BUSY = "left to a writer that changed rows of the partition lately"
    NOT_PARQUET = "not in Parquet, and only Parquet is rewritten"
    DELETES_NOT_PARQUET = "rows are deleted by files that are not in Parquet"
    ENCRYPTED = "encrypted, or rows are deleted by encrypted files"
    COLUMN_TYPE = "columns have types that are not rewritten"

    @property
    def is_by_name(self) -> bool:
        """Whether a rewrite cannot take such files, whatever its options are."""
        return self in _BY_NAME


_BY_NAME = frozenset(
    {Reason.NOT_PARQUET, Reason.DELETES_NOT_PARQUET, Reason.ENCRYPTED, Reason.COLUMN_TYPE}
)


@dataclass(frozen=True, slots=True)
class Skipped:
    """Files that stay as they are.

    `named` are the first `NAMED_MAX` of those that cannot be rewritten, or the columns that are the
    reason.
    """

    reason: Reason
    files: int
    size_bytes: int
    named: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """In one line, with some of the names."""
        stays = "stays" if self.files == 1 else "stay"
        text = f"{counted(self.files, 'file')} {stays}: {self.reason.value}"
        if not self.named:
            return text
        more = ", ..." if len(self.named) > _NAMED_IN_WORDS else ""
        return f"{text}: {', '.join(self.named[:_NAMED_IN_WORDS])}{more}"


class Ledger:
    """What becomes of the files."""

    def __init__(self) -> None:
        self.planned = 0
        self._files: Counter[Reason] = Counter()
        self._bytes: Counter[Reason] = Counter()
        self._named: defaultdict[Reason, tuple[str, ...]] = defaultdict(tuple)

    def skip(
        self, reason: Reason, tasks: Sequence[FileScanTask], columns: Sequence[str] = ()
    ) -> None:
        """Leave files, because of themselves or of some columns."""
        self._files[reason] += len(tasks)
        self._bytes[reason] += sum(task.data_file.file_size_bytes for task in tasks)
        if columns:
            self._named[reason] = tuple(columns)
        elif reason.is_by_name and len(self._named[reason]) < NAMED_MAX:
            self._named[reason] += tuple(task.data_file.file_path for task in tasks)

    def skipped(self) -> tuple[Skipped, ...]:
        """All that was left."""
        return tuple(
            Skipped(reason, files, self._bytes[reason], self._named[reason][:NAMED_MAX])
            for reason, files in self._files.items()
            if files
        )


def unreadable(task: FileScanTask) -> Reason | None:
    """Why a data file cannot be rewritten, as far as metadata shows it; None otherwise."""
    file = task.data_file
    if any(data_file.key_metadata is not None for data_file in (file, *task.deletes)):
        return Reason.ENCRYPTED
    if not _is_parquet(file):
        return Reason.NOT_PARQUET
    deletes = (*task.position_deletes, *task.equality_deletes)
    return None if all(map(_is_parquet, deletes)) else Reason.DELETES_NOT_PARQUET


def _is_parquet(file: DataFile) -> bool:
    return file.file_format == "PARQUET"
