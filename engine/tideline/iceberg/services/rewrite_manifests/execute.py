"""Rewrite manifests so that partitions lie together in few of them; no file and no row changes.

1. Plan on the branch's manifests (plan.py), sort the entries of each group and write them
   to new manifests as existing files, with the sequence numbers, snapshot and row ids they have.
2. Publish a snapshot of operation `replace` with the new manifests in place of the old ones.
3. When the table has changed, what was written still fits as long as all manifests of its group are
   still there; manifests that came stay as they are. Groups that lost one are planned again from
   what is there now.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from tideline.clock import Clock, SystemClock
from tideline.errors import CorruptTableError
from tideline.iceberg.commit.metadata_writer import MetadataWriter
from tideline.iceberg.commit.snapshot_producer import (
    SnapshotContent,
    commit_snapshot,
    new_snapshot_id,
)
from tideline.iceberg.manifest.manifest_entry import ManifestContent, ManifestFile
from tideline.iceberg.manifest.manifest_reading import manifests_of
from tideline.iceberg.metadata.snapshot import MAIN
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.services.rewrite_manifests.plan import (
    ManifestGroup,
    ManifestOptions,
    plan_manifests,
)
from tideline.iceberg.services.rewrite_manifests.sorting import ENTRIES_MAX, SortedEntries
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.table_operations import (
    CommitOutcome,
    Committed,
    Conflicted,
    TableOperations,
)
from tideline.retry import RetryPolicy
from tideline.services.benefit import Benefit
from tideline.services.report import ServiceReport
from tideline.wording import counted


@dataclass(frozen=True, slots=True)
class ManifestRun:
    """What was replaced by how many new manifests; `outcome` is None when nothing was to do."""

    groups: tuple[ManifestGroup, ...]
    created: tuple[ManifestFile, ...]
    outcome: CommitOutcome | None

    @property
    def replaced_count(self) -> int:
        """How many manifests went."""
        return sum(len(group.manifests) for group in self.groups)

    @property
    def size_bytes(self) -> tuple[int, int]:
        """The bytes of the manifests that went, and of the new ones."""
        created = sum(manifest_file.length_bytes for manifest_file in self.created)
        return sum(group.size_bytes for group in self.groups), created

    def report(self) -> ServiceReport:
        """What was done, summed up."""
        created, (bytes_read, bytes_written) = len(self.created), self.size_bytes
        return ServiceReport(
            f"rewrote {counted(self.replaced_count, 'manifest')} as {created:,}",
            self.outcome.snapshot_id if isinstance(self.outcome, Committed) else None,
            files_read=self.replaced_count,
            bytes_read=bytes_read,
            files_written=created,
            bytes_written=bytes_written,
            benefit=self.benefit,
        )

    def to_json_object(self) -> dict[str, Any]:
        """What was done, for machines."""
        return {
            "rewritten_manifests": self.replaced_count,
            "added_manifests": len(self.created),
            "groups": [group.to_json_object() for group in self.groups],
        }

    @property
    def benefit(self) -> Benefit:
        """What readers save who plan a scan of the whole table."""
        before, after = self.size_bytes
        return Benefit(
            files_opened=self.replaced_count - len(self.created), bytes_scanned=before - after
        )


def preview_manifests(
    operations: TableOperations, options: ManifestOptions
) -> tuple[ManifestGroup, ...]:
    """The groups that would be rewritten; changes nothing."""
    metadata = operations.load().metadata
    manifests = manifests_of(operations.io, metadata.ref_snapshot(MAIN))
    return plan_manifests(manifests, metadata, options)


def execute_manifests(
    operations: TableOperations,
    options: ManifestOptions,
    *,
    clock: Clock | None = None,
    retry: RetryPolicy | None = None,
    entries_max: int = ENTRIES_MAX,
) -> ManifestRun:
    """Rewrite the manifests of `main`.

    Raises ConfigError, CorruptTableError, ObjectNotFoundError and StorageUnavailableError; then
    nothing was published.
    """
    found = preview_manifests(operations, options)
    if sum(len(group.manifests) for group in found) < options.manifests_min:
        return ManifestRun((), (), None)
    writer = MetadataWriter(operations.io, snapshot_id=new_snapshot_id())
    change = _Reclustering(operations.io, writer, options, entries_max)
    outcome = commit_snapshot(operations, change, writer, clock=clock or SystemClock(), retry=retry)
    created = tuple(manifest for manifests in change.written.values() for manifest in manifests)
    return ManifestRun(tuple(change.written), created, outcome)


@dataclass(slots=True)
class _Reclustering:
    """The rewrite as a change of snapshots; `written` holds each group's new manifests."""

    io: FileIO
    writer: MetadataWriter
    options: ManifestOptions
    entries_max: int
    written: dict[ManifestGroup, list[ManifestFile]] = field(default_factory=dict)
    entries_by_group: dict[ManifestGroup, int] = field(default_factory=dict)

    @property
    def operation(self) -> str:
        return "replace"

    @property
    def branch(self) -> str:
        return MAIN

    def apply(self, metadata: TableMetadata) -> SnapshotContent | Conflicted:
        current = manifests_of(self.io, metadata.ref_snapshot(MAIN))
        paths = {manifest_file.path for manifest_file in current}
        is_first = not self.written
        lost = [
            manifest_group
            for manifest_group in self.written
            if not {m.path for m in manifest_group.manifests} <= paths
        ]
        for group in lost:
            del self.written[group]
        if is_first or lost:
            taken = {m.path for group in self.written for m in group.manifests}
            free = [manifest_file for manifest_file in current if manifest_file.path not in taken]
            for group in plan_manifests(free, metadata, self.options):
                self.written[group] = self._rewrite(group, metadata)
        if not self.written:
            return Conflicted("other commits left no manifest that is worth a rewrite")
        return self._content(current)

    def _rewrite(self, group: ManifestGroup, metadata: TableMetadata) -> list[ManifestFile]:
        entries = SortedEntries(self.io, group, self.entries_max)
        each = max(1, math.ceil(entries.total / group.outputs))
        ordered = iter(entries)
        created = []
        while part := list(islice(ordered, each)):
            created.append(
                self.writer.write_manifest(
                    part, metadata=metadata, spec_id=group.spec_id, content=group.content
                )
            )
        written = sum(manifest_file.existing_files_count or 0 for manifest_file in created)
        if written != entries.total:
            message = (
                f"manifests of {counted(entries.total, 'file')} became manifests of {written:,}"
            )
            raise CorruptTableError(message, table=metadata.location)
        self.entries_by_group[group] = entries.total
        return created

    def _content(self, current: tuple[ManifestFile, ...]) -> SnapshotContent:
        replaced = {manifest.path for group in self.written for manifest in group.manifests}
        kept = [manifest_file for manifest_file in current if manifest_file.path not in replaced]
        created = [manifest for manifests in self.written.values() for manifest in manifests]
        listed = [
            manifest
            for content in ManifestContent
            for manifests in (created, kept)
            for manifest in manifests
            if manifest.content is content
        ]
        summary = {
            "changed-partition-count": "0",
            "manifests-created": str(len(created)),
            "manifests-kept": str(len(kept)),
            "manifests-replaced": str(len(replaced)),
            "entries-processed": str(
                sum(self.entries_by_group[manifest_group] for manifest_group in self.written)
            ),
        }
        return SnapshotContent(tuple(listed), summary)
