"""What was seen of an Iceberg table, as values."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.iceberg.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class RewriteOutlook:
    """What a rewrite would do: files and bytes that it takes, and how many files it is expected to
    make of them. `reasons` say in words why."""

    files_before: int
    files_after: int
    bytes_before: int
    groups: int
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IcebergFiles:
    """The files of one snapshot, counted; `small_files` are below the size rewrites aim at.

    What `is_filtered` leaves out files that a rewrite's filter does. `rewrite`, `deletes` and
    `manifest_rewrite` are what rewrites would do, None where there is nothing to gain; `problem` is
    the error that keeps one of data files from being planned; `deletes` may be one as well.
    """

    files: int = 0
    size_bytes: int = 0
    small_files: int = 0
    files_with_deletes: int = 0
    delete_files: int = 0
    manifests: int = 0
    is_filtered: bool = False
    rewrite: RewriteOutlook | UnsupportedTableError | None = None
    deletes: RewriteOutlook | ConfigError | UnsupportedTableError | None = None
    manifest_rewrite: RewriteOutlook | None = None
    problem: ConfigError | None = None


@dataclass(frozen=True, slots=True)
class ObservedIceberg:
    """An Iceberg table that exists.

    `metadata` lacks the document it came from. `files` is None until the newest snapshot has been
    looked at, which is done at `count_at_ms` so that looking stays a small part of the time.
    """

    metadata: TableMetadata
    metadata_location: str
    files: IcebergFiles | None = None
    count_at_ms: int | None = None
