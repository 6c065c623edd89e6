"""Manifests without the files that a commit removes.

1. A manifest that cannot hold a removed file, by the partitions its list names for it, is not even
   read; one that was read and holds none stays as it is.
2. Any other is rewritten: removed files become DELETED entries of this snapshot, the other live
   ones EXISTING, all with the sequence numbers, snapshot ids and row ids they have. DELETED entries
   keep their bounds: by them a concurrent delete by condition sees that it selects none of these
   files. Those of earlier snapshots are dropped: they describe that snapshot.
3. Bounds are values of rows. An erasure leaves none of removed files: DELETED entries have none,
   and manifests that give bounds of files removed before are rewritten as well.

Results are kept by the manifest's location, so that a second attempt only filters what is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from tideline.iceberg.commit.file_identity import FileKey, file_key
from tideline.iceberg.commit.metadata_writer import MetadataWriter
from tideline.iceberg.commit.partition_set import PartitionSet
from tideline.iceberg.manifest.manifest_entry import (
    DataFile,
    EntryStatus,
    ManifestEntry,
    ManifestFile,
)
from tideline.iceberg.manifest.manifest_reading import (
    entries_of,
    in_parallel,
    live_paths,
    manifests_of,
)
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO


class Removal(Protocol):
    """Which files go."""

    @property
    def variant(self) -> int:
        """Removals of one commit and one kind of content with equal variants remove the same."""

    @property
    def paths(self) -> frozenset[str] | None:
        """The locations of all files that go, None when they are not known by name alone."""

    def may_be_in(self, manifest: ManifestFile, metadata: TableMetadata) -> bool:
        """Whether the manifest can hold such a file, by what its list says of it."""

    def removes(self, entry: ManifestEntry) -> bool:
        """Whether a live entry's file goes."""


@dataclass(frozen=True, slots=True)
class FilesRemoval:
    """Data files by name, in known partitions."""

    keys: frozenset[FileKey]
    partitions: PartitionSet
    paths: frozenset[str]

    @classmethod
    def of(cls, files: Iterable[DataFile]) -> FilesRemoval:
        listed = tuple(files)
        keys = frozenset(map(file_key, listed))
        return cls(keys, PartitionSet.of(listed), frozenset(path for path, _ in keys))

    @property
    def variant(self) -> int:
        return 0

    def may_be_in(self, manifest: ManifestFile, metadata: TableMetadata) -> bool:
        return self.partitions.meets(manifest, metadata)

    def removes(self, entry: ManifestEntry) -> bool:
        return file_key(entry.data_file) in self.keys


@dataclass(frozen=True, slots=True)
class DeletesRemoval:
    """Delete files by name, those that became pointless, and deletion vectors of removed data.

    A delete file is pointless when every data file of the table is younger than it:
    `sequence_number_min` is the lowest sequence number of a data file.
    """

    named: FilesRemoval
    removed_data: FilesRemoval
    sequence_number_min: int

    @property
    def variant(self) -> int:
        return self.sequence_number_min

    @property
    def paths(self) -> None:
        return None

    def may_be_in(self, manifest: ManifestFile, metadata: TableMetadata) -> bool:
        return (
            manifest.min_sequence_number < self.sequence_number_min
            or self.named.may_be_in(manifest, metadata)
            or (metadata.format_version > 2 and self.removed_data.may_be_in(manifest, metadata))
        )

    def removes(self, entry: ManifestEntry) -> bool:
        file = entry.data_file
        number = entry.sequence_number
        if number is not None and 0 < number < self.sequence_number_min:
            return True
        if file.is_deletion_vector and (file.referenced_data_file, None) in self.removed_data.keys:
            return True
        return self.named.removes(entry)


@dataclass(frozen=True, slots=True)
class Filtered:
    """A manifest after filtering, the files that went (without metrics), and how many of them it
    had listed twice."""

    manifest: ManifestFile
    removed: tuple[DataFile, ...] = ()
    duplicates: int = 0


class ManifestFilter:
    """Filters the manifests of one kind of content, attempt after attempt."""

    def __init__(
        self, io: FileIO, writer: MetadataWriter, *, drops_old_bounds: bool = False
    ) -> None:
        self._io = io
        self._writer = writer
        self._drops_old_bounds = drops_old_bounds
        self._known: dict[tuple[str, int], Filtered] = {}

    def filter(
        self, manifests: Sequence[ManifestFile], removal: Removal, metadata: TableMetadata
    ) -> list[Filtered]:
        """The manifests, in order. Raises what reading and writing raise."""

        def filtered(manifest: ManifestFile) -> Filtered:
            key = (manifest.path, removal.variant)
            if key not in self._known:
                self._known[key] = self._filter(manifest, removal, metadata)
            return self._known[key]

        return in_parallel(filtered, manifests)

    def _filter(
        self, manifest: ManifestFile, removal: Removal, metadata: TableMetadata
    ) -> Filtered:
        if not manifest.may_have_live_files:
            return Filtered(manifest)
        is_stale = self._drops_old_bounds and _has_old_bounds(self._io, manifest)
        holds_any = removal.may_be_in(manifest, metadata) and self._holds_any(manifest, removal)
        if not is_stale and not holds_any:
            return Filtered(manifest)
        removed: dict[FileKey, DataFile] = {}
        entries = []
        gone = 0
        for entry in entries_of(self._io, manifest, live_only=True):
            if removal.removes(entry):
                gone += 1
                removed[file_key(entry.data_file)] = entry.data_file.without_metrics()
                entries.append(self._deleted(entry))
            else:
                entries.append(replace(entry, status=EntryStatus.EXISTING))
        if not removed and not is_stale:
            return Filtered(manifest)
        written = self._writer.write_manifest(
            entries, metadata=metadata, spec_id=manifest.spec_id, content=manifest.content
        )
        return Filtered(written, tuple(removed.values()), gone - len(removed))

    def _holds_any(self, manifest: ManifestFile, removal: Removal) -> bool:
        if removal.paths is not None:
            return not removal.paths.isdisjoint(live_paths(self._io, manifest))
        light = entries_of(self._io, manifest, with_metrics=False, live_only=True)
        return any(map(removal.removes, light))

    def _deleted(self, entry: ManifestEntry) -> ManifestEntry:
        found = entry.data_file
        file = found.without_bounds() if self._drops_old_bounds else found
        snapshot_id = self._writer.snapshot_id
        return replace(entry, status=EntryStatus.DELETED, snapshot_id=snapshot_id, data_file=file)


def has_old_bounds(io: FileIO, snapshot: Snapshot | None) -> bool:
    """Whether a manifest of the snapshot gives bounds of a file that an earlier commit removed.

    Raises what reading manifests raises.
    """
    return any(in_parallel(partial(_has_old_bounds, io), manifests_of(io, snapshot)))


def _has_old_bounds(io: FileIO, manifest: ManifestFile) -> bool:
    if manifest.deleted_files_count == 0:
        return False
    return any(
        entry.status is EntryStatus.DELETED and entry.data_file.has_bounds
        for entry in entries_of(io, manifest)
    )
