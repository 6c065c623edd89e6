"""What decides whether a service of an Iceberg table is due: its metadata, and its files, counted.

The engine counts them when a plan is made, the operator when it looks at the table
(`snapshot_files`). Triggers are pure functions of these facts, so both give the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.services.benefit import NO_BENEFIT, Benefit
from tideline.wording import counted, size_text


@dataclass(frozen=True, slots=True)
class RewriteOutlook:
    """What a rewrite would do: the files and bytes it takes, and how many files it is expected to
    write. `reasons` say why, `benefit` is what readers are expected to save."""

    files_before: int
    files_after: int
    bytes_before: int
    reasons: tuple[str, ...] = ()
    benefit: Benefit = NO_BENEFIT

    def promise(self, what: str) -> str:
        """`24 data files (1.2 MB) would become 3: enough files of the wrong size`."""
        files = f"{counted(self.files_before, what)} ({size_text(self.bytes_before)})"
        why = f": {'; '.join(self.reasons)}" if self.reasons else ""
        return f"{files} would become {self.files_after:,}{why}"


@dataclass(frozen=True, slots=True)
class IcebergFiles:
    """The files of one snapshot, counted; `small_files` are below the size rewrites aim at.

    `is_filtered`: files that a rewrite's filter excludes are not counted. `outlooks` are what
    rewrites would do, by the names of the services that gain something, `problems` the errors that
    prevent their plans. `left` says which files a rewrite cannot take, and why. At `quiet_at_ms`
    the first of the partitions that are left to their writers may be rewritten.
    """

    files: int = 0
    size_bytes: int = 0
    small_files: int = 0
    files_with_deletes: int = 0
    delete_files: int = 0
    manifests: int = 0
    is_filtered: bool = False
    outlooks: Mapping[str, RewriteOutlook] = field(default_factory=dict)
    problems: Mapping[str, ConfigError | UnsupportedTableError] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    quiet_at_ms: int | None = None

    def is_quiet_at(self, now_ms: int) -> bool:
        """Whether more may be rewritten than when the files were counted."""
        return self.quiet_at_ms is not None and now_ms > self.quiet_at_ms


@dataclass(frozen=True, slots=True)
class IcebergFacts:
    """One table at the moment `now_ms`, in milliseconds since the epoch. `files` is None until
    those of the newest snapshot are counted."""

    metadata: TableMetadata
    now_ms: int
    files: IcebergFiles | None = None
