"""The commit of a write: files with new rows come, and files or rows that it takes out go.

1. Another attempt, of this process or of one that died, may have committed the same write: its
   token is found in a snapshot of the table, and nothing is done.
2. What was taken out must be all that is to go, whatever others committed since it was read
   (row_conflicts.py). Conflicted: the change has to be made again.
3. Both are looked at again on whatever the table has become when another writer was first
   (snapshot_producer.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tideline.clock import Clock
from tideline.errors import ConfigError
from tideline.iceberg.commit.manifest_merge import MergePolicy
from tideline.iceberg.commit.metadata_writer import MetadataWriter
from tideline.iceberg.commit.replacement import AddedDelete, operation_of
from tideline.iceberg.commit.rewritten_manifests import ManifestRewrite, MissingFiles
from tideline.iceberg.commit.row_conflicts import ReadState, find_row_conflict
from tideline.iceberg.commit.snapshot_producer import (
    SnapshotContent,
    commit_snapshot,
    new_snapshot_id,
)
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.metadata_update import RemoveProperties, SetProperties
from tideline.iceberg.metadata.owner import refuse_publication
from tideline.iceberg.metadata.snapshot import MAIN, Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.retry import commit_retries
from tideline.iceberg.table.table_operations import CommitOutcome, Conflicted, TableOperations
from tideline.iceberg.write.write_request import IcebergWrite, RowCounts
from tideline.iceberg.write.write_settings import WriteSettings


@dataclass(frozen=True, slots=True)
class RowChange:
    """Files that come and go, and what becomes of rows by that. New rows are younger than all
    deletes. `read` is what it was made from, None for rows that only come."""

    counts: RowCounts
    added_data: tuple[DataFile, ...] = ()
    removed_data: tuple[DataFile, ...] = ()
    removed_deletes: tuple[DataFile, ...] = ()
    added_deletes: tuple[AddedDelete, ...] = ()
    read: ReadState | None = None
    summary_extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def sequence_number(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class EarlierWrite:
    """The write took place already, as this snapshot."""

    snapshot: Snapshot


def commit_change(
    operations: TableOperations,
    write: IcebergWrite,
    change: RowChange,
    settings: WriteSettings,
    *,
    clock: Clock,
) -> CommitOutcome | EarlierWrite:
    """Commit the files, or find out that it must not be done.

    Raises StorageUnavailableError, CorruptTableError and ConfigError; then nothing was published.
    """
    writer = MetadataWriter(operations.io, snapshot_id=new_snapshot_id())
    summary = {**write.summary(), **change.counts.summary()}
    attempt = _Attempts(
        operations.io, writer, write, replace(change, summary_extra=summary), settings
    )
    retry = commit_retries(settings.properties)
    outcome = commit_snapshot(operations, attempt, writer, clock=clock, retry=retry)
    if attempt.earlier is not None:
        return EarlierWrite(attempt.earlier)
    return outcome


def branch_head(metadata: TableMetadata, branch: str) -> Snapshot | None:
    """What a branch leads to; None for `main` of a table without any snapshot.

    Raises ConfigError for a tag, and for a branch that the table does not have.
    """
    ref = metadata.refs.get(branch)
    if ref is None and branch != MAIN:
        message = "the table has no such branch: create it first"
        raise ConfigError(message, table=metadata.location, value=branch)
    if ref is not None and ref.type != "branch":
        message = "snapshots go on branches, and this is a tag"
        raise ConfigError(message, table=metadata.location, value=branch)
    return metadata.ref_snapshot(branch)


@dataclass(slots=True)
class _Attempts:
    """A write as a change of snapshots; `earlier` is what made it needless."""

    io: FileIO
    writer: MetadataWriter
    write: IcebergWrite
    change: RowChange
    settings: WriteSettings
    earlier: Snapshot | None = None
    manifests: ManifestRewrite | None = None

    @property
    def operation(self) -> str:
        return self.write.operation.of_snapshot(operation_of(self.change))

    @property
    def branch(self) -> str:
        return self.write.branch

    def apply(self, metadata: TableMetadata) -> SnapshotContent | Conflicted:
        self.earlier = self.write.earlier(metadata)
        if self.earlier is not None:
            return Conflicted("an earlier write with the same token took place")
        refuse_publication(metadata)
        progress = self.write.progress
        progress.require(metadata)
        head = branch_head(metadata, self.branch)
        read = self.change.read
        reason = None if read is None else find_row_conflict(self.io, metadata, head, read)
        if metadata.format_version > 2 and not all(
            added.file.is_deletion_vector for added in self.change.added_deletes
        ):
            reason = "the table became one of version 3, which takes no position delete files"
        if reason is not None:
            return Conflicted(reason)
        if self.manifests is None:
            policy = MergePolicy.of(self.settings.properties)
            self.manifests = ManifestRewrite(self.io, self.writer, self.change, policy)
        content = self.manifests.apply(self.settings.applied(metadata), head)
        if isinstance(content, MissingFiles):
            return Conflicted(f"another writer removed {content.locations[0]}")
        kept = (SetProperties(progress.properties),) if progress.properties else ()
        over = tuple(name for name in progress.over if name in metadata.properties)
        gone = (RemoveProperties(over),) if over else ()
        return replace(
            content,
            updates=(*content.updates, *kept, *gone),
            onto=self.write.onto,
            ends_branch=self.write.ends,
        )
