"""What was observed of an Iceberg table, as values."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.saving import NO_SAVING, Saving


@dataclass(frozen=True, slots=True)
class RewriteOutlook:
    """What a rewrite would do: the files and bytes it takes, and how many files it is expected to
    write. `reasons` say why, `saving` is what readers are expected to save."""

    files_before: int
    files_after: int
    bytes_before: int
    groups: int
    reasons: tuple[str, ...] = ()
    saving: Saving = NO_SAVING


@dataclass(frozen=True, slots=True)
class IcebergFiles:
    """The files of one snapshot, counted; `small_files` are below the size rewrites aim at.

    `is_filtered`: files that a rewrite's filter excludes are not counted. `rewrite`, `deletes` and
    `manifest_rewrite` are what rewrites would do, None where there is nothing to gain; `problem` is
    the error that prevents the plan for data files; `deletes` may be an error as well. `left` says
    which files a rewrite cannot take, and why. At `quiet_at_ms` the first of the partitions that
    are left to their writers may be rewritten.
    """

    files: int = 0
    size_bytes: int = 0
    small_files: int = 0
    files_with_deletes: int = 0
    delete_files: int = 0
    manifests: int = 0
    is_filtered: bool = False
    rewrite: RewriteOutlook | None = None
    left: tuple[str, ...] = ()
    deletes: RewriteOutlook | ConfigError | UnsupportedTableError | None = None
    manifest_rewrite: RewriteOutlook | None = None
    problem: ConfigError | None = None
    quiet_at_ms: int | None = None

    def is_quiet_at(self, now_ms: int) -> bool:
        """Whether more may be rewritten than when the files were counted."""
        return self.quiet_at_ms is not None and now_ms > self.quiet_at_ms


@dataclass(frozen=True, slots=True)
class ObservedIceberg:
    """An Iceberg table that exists.

    `metadata` lacks the document it came from. `files` is None until the files of the newest
    snapshot are counted, which is done at `count_at_ms` so that counting stays a small part of the
    time.
    """

    metadata: TableMetadata
    metadata_location: str
    files: IcebergFiles | None = None
    count_at_ms: int | None = None
