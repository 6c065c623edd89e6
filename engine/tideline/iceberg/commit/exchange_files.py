"""The commit that exchanges data files for others, whatever rows they hold.

For an owner of the table that derives its files from somewhere else: nothing is validated, except
that the table is still the one from which the exchange was planned. Where it is not, the exchange
is void and must be planned again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tideline.clock import Clock, SystemClock
from tideline.iceberg.commit.manifest_merge import MergePolicy
from tideline.iceberg.commit.metadata_writer import MetadataWriter
from tideline.iceberg.commit.replacement import AddedDelete, operation_of
from tideline.iceberg.commit.rewritten_manifests import ManifestRewrite, MissingFiles
from tideline.iceberg.commit.snapshot_producer import (
    SnapshotContent,
    commit_snapshot,
    new_snapshot_id,
)
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.metadata_update import MetadataUpdate, SetProperties, apply_updates
from tideline.iceberg.metadata.snapshot import MAIN
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.table_operations import CommitOutcome, Conflicted, TableOperations
from tideline.retry import RetryPolicy

_ONCE = RetryPolicy(retries=0)


@dataclass(frozen=True, slots=True)
class ExchangeFiles:
    """Files that go and come, planned on the snapshot `base_id`, None for a table without any.

    `updates` of the schema and of properties take place in the same commit; the property
    `snapshot_property` is set to the id of the new snapshot. `is_rearrangement`: the rows of the
    table stay the same. `drops_old_bounds`: manifests that give bounds of files removed before are
    rewritten without these files.
    """

    base_id: int | None
    added_data: tuple[DataFile, ...] = ()
    removed_data: tuple[DataFile, ...] = ()
    removed_deletes: tuple[DataFile, ...] = ()
    added_deletes: tuple[AddedDelete, ...] = ()
    updates: tuple[MetadataUpdate, ...] = ()
    summary_extra: Mapping[str, str] = field(default_factory=dict)
    snapshot_property: str | None = None
    is_rearrangement: bool = False
    drops_old_bounds: bool = False

    @property
    def sequence_number(self) -> None:
        return None

    @property
    def operation(self) -> str:
        """As Iceberg names what such a commit does."""
        named = operation_of(self)
        is_changed = named != "append" or self.drops_old_bounds
        return "replace" if is_changed and self.is_rearrangement else named

    @property
    def is_empty(self) -> bool:
        """Whether no file comes or goes."""
        return not (
            self.added_data or self.removed_data or self.added_deletes or self.removed_deletes
        )


def commit_exchange(
    operations: TableOperations, exchange: ExchangeFiles, *, clock: Clock | None = None
) -> CommitOutcome:
    """Exchange the files; Conflicted when the table is no longer the one it was planned for.

    Raises StorageUnavailableError, CorruptTableError and ConfigError; then nothing was published.
    """
    writer = MetadataWriter(operations.io, snapshot_id=new_snapshot_id())
    change = _Exchange(operations.io, writer, exchange)
    return commit_snapshot(operations, change, writer, clock=clock or SystemClock(), retry=_ONCE)


@dataclass(slots=True)
class _Exchange:
    """An exchange as a change of snapshots."""

    io: FileIO
    writer: MetadataWriter
    exchange: ExchangeFiles

    @property
    def operation(self) -> str:
        return self.exchange.operation

    @property
    def branch(self) -> str:
        return MAIN

    def apply(self, metadata: TableMetadata) -> SnapshotContent | Conflicted:
        if metadata.current_snapshot_id != self.exchange.base_id:
            found = metadata.current_snapshot_id
            return Conflicted(f"snapshot {found} is there, not {self.exchange.base_id}")
        updates = self.exchange.updates
        if self.exchange.snapshot_property is not None:
            own = {self.exchange.snapshot_property: str(self.writer.snapshot_id)}
            updates = (*updates, SetProperties(own))
        changed = apply_updates(metadata, updates, now_ms=metadata.last_updated_ms)
        policy = MergePolicy.of(changed.properties)
        drops = self.exchange.drops_old_bounds
        rewrite = ManifestRewrite(
            self.io, self.writer, self.exchange, policy, drops_old_bounds=drops
        )
        content = rewrite.apply(changed, metadata.snapshot())
        if isinstance(content, MissingFiles):
            return Conflicted(f"files to be removed are gone: {content.locations[0]}")
        return SnapshotContent(content.manifests, content.summary, updates)
