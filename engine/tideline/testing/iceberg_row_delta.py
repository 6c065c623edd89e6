"""Appends, overwrites and deletes on an `IcebergModel`: other writers, as a rewrite meets them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tideline.iceberg.commit.manifest_filter import FilesRemoval, ManifestFilter
from tideline.iceberg.commit.metadata_writer import MetadataWriter
from tideline.iceberg.commit.snapshot_producer import SnapshotContent
from tideline.iceberg.commit.summary import SummaryBuilder
from tideline.iceberg.manifest.manifest_entry import (
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from tideline.iceberg.manifest.manifest_reading import entries_of, manifests_of
from tideline.iceberg.metadata.snapshot import MAIN
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.table_operations import Conflicted


@dataclass(slots=True)
class RowDelta:
    """Files that come and go, and data files that must still be there."""

    operation: str
    added: Iterable[DataFile] = ()
    removed: Iterable[DataFile] = ()
    required: frozenset[str] = frozenset()
    branch: str = MAIN
    _io: FileIO | None = None
    _writer: MetadataWriter | None = None
    _new: list[ManifestFile] | None = field(default=None)

    def bind(self, io: FileIO, writer: MetadataWriter) -> None:
        """What to read and write with."""
        self._io, self._writer = io, writer

    def apply(self, metadata: TableMetadata) -> SnapshotContent | Conflicted:
        assert self._io is not None
        assert self._writer is not None
        io, writer = self._io, self._writer
        existing = manifests_of(io, metadata.ref_snapshot(self.branch))
        live = {
            entry.data_file.file_path
            for manifest in existing
            for entry in entries_of(io, manifest, live_only=True)
        }
        needed = self.required | {file.file_path for file in self.removed}
        if not needed <= live:
            return Conflicted(f"gone: {sorted(needed - live)}")
        removal = FilesRemoval.of(self.removed)
        filtered = ManifestFilter(io, writer).filter(existing, removal, metadata)
        if self._new is None:
            self._new = list(self._manifests(writer, metadata))
        summary = SummaryBuilder()
        for file in self.added:
            summary.add(file, str(file.partition))
        for file in self.removed:
            summary.remove(file, str(file.partition))
        manifests = (*self._new, *(candidate.manifest for candidate in filtered))
        return SnapshotContent(manifests, summary.properties())

    def _manifests(self, writer: MetadataWriter, metadata: TableMetadata) -> Iterable[ManifestFile]:
        groups: dict[tuple[int, ManifestContent], list[ManifestEntry]] = {}
        for file in self.added:
            is_data = file.content is FileContent.DATA
            content = ManifestContent.DATA if is_data else ManifestContent.DELETES
            entry = ManifestEntry(EntryStatus.ADDED, writer.snapshot_id, None, None, file)
            groups.setdefault((file.spec_id, content), []).append(entry)
        for (spec_id, content), entries in groups.items():
            yield writer.write_manifest(
                entries, metadata=metadata, spec_id=spec_id, content=content
            )
