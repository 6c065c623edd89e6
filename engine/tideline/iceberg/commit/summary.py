"""A snapshot's summary: what the commit added and removed, and what the table holds after it.

The names and the rules are those of Iceberg's Java writers (spec, "Optional Snapshot Summary
Fields"): a count of nothing is left out, totals continue from the snapshot before as long as that
one has them, and partitions are listed one by one only up to `write.summary.partition-limit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_property import whole_property

PARTITION_LIMIT_PROPERTY = "write.summary.partition-limit"


@dataclass(slots=True)
class FileCounts:
    """Files, rows and bytes that came and went; the field names are the summary's, underscored."""

    added_data_files: int = 0
    deleted_data_files: int = 0
    added_equality_delete_files: int = 0
    removed_equality_delete_files: int = 0
    added_position_delete_files: int = 0
    removed_position_delete_files: int = 0
    added_delete_files: int = 0
    removed_delete_files: int = 0
    added_dvs: int = 0
    removed_dvs: int = 0
    added_records: int = 0
    deleted_records: int = 0
    added_files_size: int = 0
    removed_files_size: int = 0
    added_position_deletes: int = 0
    removed_position_deletes: int = 0
    added_equality_deletes: int = 0
    removed_equality_deletes: int = 0

    def add(self, file: DataFile) -> None:
        """Count a file that came."""
        self.added_files_size += size_of(file)
        if file.content is FileContent.DATA:
            self.added_data_files += 1
            self.added_records += file.record_count
            return
        self.added_delete_files += 1
        if file.content is FileContent.EQUALITY_DELETES:
            self.added_equality_delete_files += 1
            self.added_equality_deletes += file.record_count
            return
        self.added_position_deletes += file.record_count
        if file.is_deletion_vector:
            self.added_dvs += 1
        else:
            self.added_position_delete_files += 1

    def remove(self, file: DataFile) -> None:
        """Count a file that went."""
        self.removed_files_size += size_of(file)
        if file.content is FileContent.DATA:
            self.deleted_data_files += 1
            self.deleted_records += file.record_count
            return
        self.removed_delete_files += 1
        if file.content is FileContent.EQUALITY_DELETES:
            self.removed_equality_delete_files += 1
            self.removed_equality_deletes += file.record_count
            return
        self.removed_position_deletes += file.record_count
        if file.is_deletion_vector:
            self.removed_dvs += 1
        else:
            self.removed_position_delete_files += 1

    def properties(self) -> dict[str, str]:
        """All that is not nothing."""
        counted = ((attribute.name, getattr(self, attribute.name)) for attribute in fields(self))
        return {name.replace("_", "-"): str(count) for name, count in counted if count}


@dataclass(slots=True)
class SummaryBuilder:
    """Collects the files of one attempt to commit, by the path of their partition."""

    counts: FileCounts = field(default_factory=FileCounts)
    by_partition: dict[str, FileCounts] = field(default_factory=dict)
    duplicates: int = 0

    def add(self, file: DataFile, partition: str) -> None:
        """A file that the snapshot adds."""
        self.counts.add(file)
        self._of(partition).add(file)

    def remove(self, file: DataFile, partition: str) -> None:
        """A file that the snapshot removes."""
        self.counts.remove(file)
        self._of(partition).remove(file)

    def properties(self, *, partition_limit: int = 0) -> dict[str, str]:
        """The part of the summary about files."""
        result = self.counts.properties()
        if self.duplicates:
            result["deleted-duplicate-files"] = str(self.duplicates)
        result["changed-partition-count"] = str(len(self.by_partition))
        if self.by_partition and len(self.by_partition) <= partition_limit:
            result["partition-summaries-included"] = "true"
            for path, counts in self.by_partition.items():
                if path:
                    joined = ",".join(f"{name}={n}" for name, n in counts.properties().items())
                    result[f"partitions.{path}"] = joined
        return result

    def _of(self, partition: str) -> FileCounts:
        return self.by_partition.setdefault(partition, FileCounts())


_TOTALS = (
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)


def with_totals(summary: Mapping[str, str], previous: Snapshot | None) -> dict[str, str]:
    """`summary` and the table's totals: those of the snapshot before, added to and taken from.

    A total that the snapshot before lacks, or that would become negative, stays unknown.
    """
    result = dict(summary)
    for total, added, removed in _TOTALS:
        before = "0" if previous is None else previous.summary.get(total)
        try:
            after = int(before or "") + int(summary.get(added, 0)) - int(summary.get(removed, 0))
        except ValueError:
            continue
        if after >= 0:
            result[total] = str(after)
    return result


def partition_limit(properties: Mapping[str, str]) -> int:
    """Up to how many changed partitions are listed one by one. Raises ConfigError."""
    return whole_property(properties, PARTITION_LIMIT_PROPERTY, 0)


def size_of(file: DataFile) -> int:
    """The bytes that are the file's own: a deletion vector shares its Puffin file with others."""
    if file.is_deletion_vector and file.content_size_bytes is not None:
        return file.content_size_bytes
    return file.file_size_bytes
