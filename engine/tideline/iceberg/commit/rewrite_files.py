"""The commit that replaces files by others with the same rows.

It never adds, removes or changes rows, regardless of what other writers do concurrently:

1. no row of a replaced file may have been deleted since the rewrite read it (validation.py);
2. every replaced file must still belong to the branch (rewritten_manifests.py);
3. both hold for the very state that the snapshot is published on: when the table changes before
   that, both are looked at again (snapshot_producer.py).

Conflicted is final: the files that were written for the rewrite are of no use and must be removed.
After Unknown they must stay.
"""

from __future__ import annotations

from dataclasses import dataclass

from tideline.clock import Clock, SystemClock
from tideline.errors import ConfigError, InvalidDataError
from tideline.iceberg.commit.manifest_merge import MergePolicy
from tideline.iceberg.commit.metadata_writer import MetadataWriter
from tideline.iceberg.commit.replacement import AddedDelete, RewriteFiles
from tideline.iceberg.commit.rewritten_manifests import ManifestRewrite, MissingFiles
from tideline.iceberg.commit.snapshot_producer import (
    SnapshotContent,
    commit_snapshot,
    new_snapshot_id,
)
from tideline.iceberg.commit.validation import find_conflict
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.table_operations import CommitOutcome, Conflicted, TableOperations
from tideline.retry import RetryPolicy

__all__ = ["AddedDelete", "RewriteFiles", "commit_rewrite"]

_NAMED_MAX = 3


def commit_rewrite(
    operations: TableOperations,
    rewrite: RewriteFiles,
    *,
    retry: RetryPolicy | None = None,
    clock: Clock | None = None,
) -> CommitOutcome:
    """Replace the files, or find out that it must not be done.

    Raises StorageUnavailableError, CorruptTableError, ConfigError and InvalidDataError; then
    nothing was published.
    """
    writer = MetadataWriter(operations.io, snapshot_id=new_snapshot_id())
    change = _Replacement(operations.io, writer, rewrite)
    return commit_snapshot(operations, change, writer, clock=clock or SystemClock(), retry=retry)


@dataclass(slots=True)
class _Replacement:
    """A rewrite as a change of snapshots."""

    io: FileIO
    writer: MetadataWriter
    rewrite: RewriteFiles
    manifests: ManifestRewrite | None = None

    @property
    def operation(self) -> str:
        return "replace"

    @property
    def branch(self) -> str:
        return self.rewrite.branch

    def apply(self, metadata: TableMetadata) -> SnapshotContent | Conflicted:
        _check_fits(self.rewrite, metadata)
        reason = find_conflict(self.io, metadata, self.rewrite)
        head = metadata.ref_snapshot(self.rewrite.branch)
        if reason is not None or head is None:
            return Conflicted(reason or f"branch {self.rewrite.branch} has no snapshot")
        if self.manifests is None:
            policy = MergePolicy.of(metadata.properties)
            self.manifests = ManifestRewrite(self.io, self.writer, self.rewrite, policy)
        content = self.manifests.apply(metadata, head)
        if isinstance(content, MissingFiles):
            named = ", ".join(content.locations[:_NAMED_MAX])
            more = len(content.locations) - _NAMED_MAX
            also = f" and {more} more" if more > 0 else ""
            return Conflicted(f"files to be replaced are gone: {named}{also}")
        return content


def _check_fits(rewrite: RewriteFiles, metadata: TableMetadata) -> None:
    """Refuses what the table's format version has no place for."""
    ref = metadata.refs.get(rewrite.branch)
    if ref is not None and ref.type != "branch":
        raise ConfigError("snapshots go on branches, and this is a tag", value=rewrite.branch)
    for added in rewrite.added_deletes:
        file, version = added.file, metadata.format_version
        is_position_file = file.content.name == "POSITION_DELETES" and not file.is_deletion_vector
        if version == 1 or (version == 2 and file.is_deletion_vector):
            message = f"format version {version} has no such delete files"
            raise InvalidDataError(message, table=metadata.location, path=file.file_path)
        if version > 2 and is_position_file:
            message = f"format version {version} takes deletion vectors, no position delete files"
            raise InvalidDataError(message, table=metadata.location, path=file.file_path)
