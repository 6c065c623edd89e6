"""Small manifests become few: the manifests of each partition spec are packed into bins of
`commit.manifest.target-size-bytes`, and each bin becomes one manifest.

1. Specs are taken newest first. Manifests keep their order, and bins are filled from the end, so
   that the one that stays small is the first, which the next commit will merge again.
2. A bin of one manifest stays as it is. So does the bin with the snapshot's newest manifest, until
   it has `commit.manifest.min-count-to-merge`: merging costs a rewrite of everything in it.
3. In a merged manifest ADDED entries of other snapshots become EXISTING, and their DELETED entries
   are dropped.

Results are kept for the next attempt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tideline.errors import ConfigError
from tideline.iceberg.bin_pack import pack_end
from tideline.iceberg.commit.metadata_writer import MetadataWriter
from tideline.iceberg.manifest.manifest_entry import (
    UNASSIGNED,
    EntryStatus,
    ManifestEntry,
    ManifestFile,
)
from tideline.iceberg.manifest.manifest_reading import entries_of, in_parallel
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """When manifests are merged; the defaults are Iceberg's."""

    is_enabled: bool = True
    target_size_bytes: int = 8 * 1024 * 1024
    count_min: int = 100

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> MergePolicy:
        """A table's own. Raises ConfigError."""
        enabled = properties.get("commit.manifest-merge.enabled", "true")
        try:
            return cls(
                enabled.lower() == "true",
                int(properties.get("commit.manifest.target-size-bytes", cls().target_size_bytes)),
                int(properties.get("commit.manifest.min-count-to-merge", cls().count_min)),
            )
        except ValueError as error:
            message = f"a table property commit.manifest.* is not a whole number: {error}"
            raise ConfigError(message) from error


@dataclass(frozen=True, slots=True)
class Merged:
    """The manifests after merging, and how many committed ones went into others."""

    manifests: tuple[ManifestFile, ...]
    replaced_count: int


class ManifestMerge:
    """Merges the manifests of one kind of content, attempt after attempt."""

    def __init__(self, io: FileIO, writer: MetadataWriter, policy: MergePolicy) -> None:
        self._io = io
        self._writer = writer
        self._policy = policy
        self._known: dict[tuple[str, ...], ManifestFile] = {}

    def merge(self, manifests: Sequence[ManifestFile], metadata: TableMetadata) -> Merged:
        """What the snapshot should list instead of `manifests`, newest first."""
        if not self._policy.is_enabled or not manifests:
            return Merged(tuple(manifests), 0)
        groups: dict[int, list[ManifestFile]] = {}
        for manifest in manifests:
            groups.setdefault(manifest.spec_id, []).append(manifest)
        bins = [
            group
            for spec_id in sorted(groups, reverse=True)
            for group in pack_end(groups[spec_id], _size_bytes, self._policy.target_size_bytes)
        ]

        def merged(group: list[ManifestFile]) -> list[ManifestFile]:
            if len(group) == 1 or (manifests[0] in group and len(group) < self._policy.count_min):
                return group
            return [self._merge(group, metadata)]

        results = in_parallel(merged, bins)
        own = self._writer.snapshot_id
        replaced = sum(
            manifest.added_snapshot_id != own
            for before, after in zip(bins, results, strict=True)
            if before != after
            for manifest in before
        )
        return Merged(tuple(manifest for result in results for manifest in result), replaced)

    def _merge(self, manifests: list[ManifestFile], metadata: TableMetadata) -> ManifestFile:
        key = tuple(manifest.path for manifest in manifests)
        if key not in self._known:
            entries = [entry for manifest in manifests for entry in self._carried(manifest)]
            first = manifests[0]
            self._known[key] = self._writer.write_manifest(
                entries, metadata=metadata, spec_id=first.spec_id, content=first.content
            )
        return self._known[key]

    def _carried(self, manifest: ManifestFile) -> Iterator[ManifestEntry]:
        for entry in entries_of(self._io, manifest):
            if entry.snapshot_id == self._writer.snapshot_id:
                yield _unassigned(entry)
            elif entry.is_live:
                yield replace(entry, status=EntryStatus.EXISTING)


def _size_bytes(manifest: ManifestFile) -> int:
    return manifest.length_bytes


def _unassigned(entry: ManifestEntry) -> ManifestEntry:
    """An entry of this commit: what it inherited from a manifest that no list has numbered yet is
    still to be inherited."""
    number, file_number = entry.sequence_number, entry.file_sequence_number
    return replace(
        entry,
        sequence_number=None if number == UNASSIGNED else number,
        file_sequence_number=None if file_number == UNASSIGNED else file_number,
    )
