"""The manifests of the snapshot that a rewrite makes: what the branch has now, without the removed
files, with the added ones, small ones merged.

1. Filter the data manifests. Every removed file must be found, or the rewrite is void.
2. Find the lowest sequence number of any data file that stays or comes. Delete files below it
   apply to nothing any more and go with the named ones, and so do the deletion vectors of removed
   data files. The added files count: they may be older than everything that stays.
3. Write manifests of the added files, once for all attempts.
4. Leave out manifests without live files, except those this commit wrote, and merge the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tideline.iceberg.commit.file_identity import file_key
from tideline.iceberg.commit.manifest_filter import (
    DeletesRemoval,
    FilesRemoval,
    Filtered,
    ManifestFilter,
)
from tideline.iceberg.commit.manifest_merge import ManifestMerge, MergePolicy
from tideline.iceberg.commit.metadata_writer import MetadataWriter
from tideline.iceberg.commit.replacement import ReplacedFiles
from tideline.iceberg.commit.snapshot_producer import SnapshotContent
from tideline.iceberg.commit.summary import SummaryBuilder, partition_limit
from tideline.iceberg.manifest.manifest_entry import (
    UNASSIGNED,
    DataFile,
    EntryStatus,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from tideline.iceberg.manifest.manifest_reading import manifests_of
from tideline.iceberg.metadata.partition_path import partition_path
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO


@dataclass(frozen=True, slots=True)
class MissingFiles:
    """Files to be removed that the branch no longer has."""

    locations: tuple[str, ...]


class ManifestRewrite:
    """One rewrite, applied to one state of the table after the other until it is committed."""

    def __init__(
        self,
        io: FileIO,
        writer: MetadataWriter,
        rewrite: ReplacedFiles,
        policy: MergePolicy,
        *,
        drops_old_bounds: bool = False,
    ) -> None:
        self._io = io
        self._writer = writer
        self._rewrite = rewrite
        self._policy = policy
        self._data = FilesRemoval.of(rewrite.removed_data)
        self._deletes = FilesRemoval.of(rewrite.removed_deletes)
        self._filters = {
            content: ManifestFilter(io, writer, drops_old_bounds=drops_old_bounds)
            for content in ManifestContent
        }
        self._merges = {content: ManifestMerge(io, writer, policy) for content in ManifestContent}
        self._added: dict[ManifestContent, list[ManifestFile]] = {}

    def apply(
        self, metadata: TableMetadata, head: Snapshot | None
    ) -> SnapshotContent | MissingFiles:
        """The manifests of a snapshot on top of `head`, None in a table without any.

        Raises what reading and writing raise, and CorruptTableError for an unknown partition spec.
        """
        committed = manifests_of(self._io, head)
        by_content = {
            content: [
                manifest_file for manifest_file in committed if manifest_file.content is content
            ]
            for content in ManifestContent
        }
        data = self._filters[ManifestContent.DATA].filter(
            by_content[ManifestContent.DATA], self._data, metadata
        )
        removal = DeletesRemoval(self._deletes, self._data, self._lowest(data, metadata))
        deletes = self._filters[ManifestContent.DELETES].filter(
            by_content[ManifestContent.DELETES], removal, metadata
        )
        missing = (*_missing(data, self._rewrite.removed_data),
                   *_missing(deletes, self._rewrite.removed_deletes))  # fmt: skip
        if missing:
            return MissingFiles(missing)
        return self._assemble(data, deletes, metadata)

    def _assemble(
        self, data: list[Filtered], deletes: list[Filtered], metadata: TableMetadata
    ) -> SnapshotContent:
        manifests: list[ManifestFile] = []
        replaced = 0
        for content, filtered in zip(ManifestContent, (data, deletes), strict=True):
            listed = (*self._added_manifests(content, metadata), *(f.manifest for f in filtered))
            own = self._writer.snapshot_id
            kept = [m for m in listed if m.may_have_live_files or m.added_snapshot_id == own]
            merged = self._merges[content].merge(kept, metadata)
            manifests += merged.manifests
            replaced += merged.replaced_count + sum(
                bool(candidate.removed) for candidate in filtered
            )
        created = sum(
            manifest.added_snapshot_id == self._writer.snapshot_id for manifest in manifests
        )
        summary = {
            **self._rewrite.summary_extra,
            **self._summary((*data, *deletes), metadata),
            "manifests-created": str(created),
            "manifests-kept": str(len(manifests) - created),
            "manifests-replaced": str(replaced),
        }
        return SnapshotContent(tuple(manifests), summary)

    def _lowest(self, data: list[Filtered], metadata: TableMetadata) -> int:
        numbers = [filtered.manifest.min_sequence_number for filtered in data]
        # A manifest written by this commit without live files has no lowest number.
        numbers = [number for number in numbers if number != UNASSIGNED]
        if self._rewrite.added_data and self._rewrite.sequence_number is not None:
            numbers.append(self._rewrite.sequence_number)
        return min((*numbers, metadata.last_sequence_number))

    def _added_manifests(
        self, content: ManifestContent, metadata: TableMetadata
    ) -> list[ManifestFile]:
        if content not in self._added:
            by_spec: dict[int, list[ManifestEntry]] = {}
            for entry in self._added_entries(content):
                by_spec.setdefault(entry.data_file.spec_id, []).append(entry)
            self._added[content] = []
            for spec_id, entries in by_spec.items():
                written = self._writer.write_manifests(
                    entries,
                    metadata=metadata,
                    spec_id=spec_id,
                    content=content,
                    target_size_bytes=self._policy.target_size_bytes,
                )
                self._added[content] += written
        return self._added[content]

    def _added_entries(self, content: ManifestContent) -> Iterable[ManifestEntry]:
        snapshot_id = self._writer.snapshot_id
        if content is ManifestContent.DATA:
            number = self._rewrite.sequence_number
            for file in self._rewrite.added_data:
                # Row ids are given out by the manifest list, regardless of what the file says.
                file = replace(file, first_row_id=None)
                yield ManifestEntry(EntryStatus.ADDED, snapshot_id, number, None, file)
        else:
            for added in self._rewrite.added_deletes:
                number = added.sequence_number
                yield ManifestEntry(EntryStatus.ADDED, snapshot_id, number, None, added.file)

    def _summary(self, filtered: Iterable[Filtered], metadata: TableMetadata) -> dict[str, str]:
        builder = SummaryBuilder()
        for file in self._rewrite.added_data:
            builder.add(file, _path(file, metadata))
        for added in self._rewrite.added_deletes:
            builder.add(added.file, _path(added.file, metadata))
        for candidate in filtered:
            builder.duplicates += candidate.duplicates
            for file in candidate.removed:
                builder.remove(file, _path(file, metadata))
        return builder.properties(partition_limit=partition_limit(metadata.properties))


def _path(file: DataFile, metadata: TableMetadata) -> str:
    spec = metadata.spec(file.spec_id)
    return partition_path(spec, file.partition, metadata.partition_schema(spec))


def _missing(filtered: Iterable[Filtered], wanted: Iterable[DataFile]) -> tuple[str, ...]:
    found = {file_key(file) for candidate in filtered for file in candidate.removed}
    return tuple(file.file_path for file in wanted if file_key(file) not in found)
