"""What manifests and manifest lists hold, as values (spec, "Manifests" and "Manifest Lists")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any


class FileContent(IntEnum):
    """What the rows of a file mean."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class EntryStatus(IntEnum):
    """What a manifest's snapshot did with a file."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class ManifestContent(IntEnum):
    """Whether a manifest lists data files or delete files."""

    DATA = 0
    DELETES = 1


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file or a delete file.

    `file_path` is the location as recorded, `file_format` upper case (`PARQUET`, `AVRO`, `ORC`,
    `PUFFIN`), `partition` as in partition_spec.py. Metrics map field ids; None where the writer
    gave none. Bounds are single values as bytes.
    """

    content: FileContent
    file_path: str
    file_format: str
    spec_id: int
    partition: tuple[Any, ...]
    record_count: int
    file_size_bytes: int
    column_sizes: Mapping[int, int] | None = None
    value_counts: Mapping[int, int] | None = None
    null_value_counts: Mapping[int, int] | None = None
    nan_value_counts: Mapping[int, int] | None = None
    lower_bounds: Mapping[int, bytes] | None = None
    upper_bounds: Mapping[int, bytes] | None = None
    key_metadata: bytes | None = None
    split_offsets: tuple[int, ...] | None = None
    equality_ids: tuple[int, ...] | None = None
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_bytes: int | None = None

    @property
    def is_deletion_vector(self) -> bool:
        """Whether it is a bitmap inside a Puffin file (format version 3)."""
        return self.content is FileContent.POSITION_DELETES and self.file_format == "PUFFIN"

    @property
    def has_bounds(self) -> bool:
        """Whether the entry holds values of the file's rows."""
        return bool(self.lower_bounds or self.upper_bounds)

    def without_bounds(self) -> DataFile:
        """The file without values of its rows."""
        return replace(self, lower_bounds=None, upper_bounds=None)

    def without_metrics(self) -> DataFile:
        """The file without the metrics of its columns."""
        return replace(
            self,
            column_sizes=None,
            value_counts=None,
            null_value_counts=None,
            nan_value_counts=None,
            lower_bounds=None,
            upper_bounds=None,
        )


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A file in a manifest. Sequence numbers of None are inherited when the manifest is read."""

    status: EntryStatus
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    data_file: DataFile

    @property
    def is_live(self) -> bool:
        """Whether the file still belongs to the table."""
        return self.status is not EntryStatus.DELETED


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """What the partitions of a manifest have in one partition field; bounds are single values."""

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


UNASSIGNED = -1
"""The sequence number of a manifest whose manifest list is not written yet."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest as its list names it. Counts are None where an old or foreign writer left them
    out: then the manifest must be read to know."""

    path: str
    length_bytes: int
    spec_id: int
    content: ManifestContent
    sequence_number: int
    min_sequence_number: int
    added_snapshot_id: int
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[FieldSummary, ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None

    @property
    def may_have_live_files(self) -> bool:
        """Whether reading it can give a file that belongs to the table."""
        return self.added_files_count != 0 or self.existing_files_count != 0
