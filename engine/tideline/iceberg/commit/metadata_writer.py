"""Writes the manifests and manifest lists of one commit, and remembers them for the clean-up.

All attempts of a commit share one writer: what an earlier attempt wrote is used again where it
still fits. Names are Iceberg's: `<uuid>-m<n>.avro` and `snap-<snapshot>-<attempt>-<uuid>.avro`.
"""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Callable, Collection, Sequence

from tideline.iceberg.manifest.manifest_entry import ManifestContent, ManifestEntry, ManifestFile
from tideline.iceberg.manifest.manifest_file import EncodedManifest, encode_manifest
from tideline.iceberg.manifest.manifest_list import EncodedManifestList, encode_manifest_list
from tideline.iceberg.manifest.manifest_reading import in_parallel
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.table_operations import metadata_file_location


class MetadataWriter:
    """Thread-safe; one per commit."""

    def __init__(
        self, io: FileIO, *, snapshot_id: int, new_uuid: Callable[[], uuid.UUID] = uuid.uuid4
    ) -> None:
        self.snapshot_id = snapshot_id
        self._io = io
        self._created: list[str] = []
        self._commit_uuid = new_uuid()
        self._manifest_numbers = itertools.count()
        self._attempts = itertools.count(1)

    def write_manifest(
        self,
        entries: Sequence[ManifestEntry],
        *,
        metadata: TableMetadata,
        spec_id: int,
        content: ManifestContent,
    ) -> ManifestFile:
        """One manifest of `entries`, regardless of its size."""
        return self._store(self._encode(entries, metadata, spec_id, content), metadata)

    def write_manifests(
        self,
        entries: Sequence[ManifestEntry],
        *,
        metadata: TableMetadata,
        spec_id: int,
        content: ManifestContent,
        target_size_bytes: int,
    ) -> list[ManifestFile]:
        """As many manifests of about the target size as `entries` need."""
        whole = self._encode(entries, metadata, spec_id, content)
        count = min(math.ceil(len(whole.body) / max(1, target_size_bytes)), len(entries))
        if count <= 1:
            return [self._store(whole, metadata)]
        step = math.ceil(len(entries) / count)
        parts = [entries[start : start + step] for start in range(0, len(entries), step)]
        encoded = (self._encode(part, metadata, spec_id, content) for part in parts)
        return in_parallel(lambda manifest: self._store(manifest, metadata), encoded)

    def write_list(
        self,
        manifests: Sequence[ManifestFile],
        *,
        metadata: TableMetadata,
        parent: Snapshot | None,
        sequence_number: int,
    ) -> tuple[str, EncodedManifestList]:
        """The next attempt's manifest list: its location and what was assigned in it."""
        encoded = encode_manifest_list(
            manifests,
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=None if parent is None else parent.snapshot_id,
            sequence_number=sequence_number,
            format_version=metadata.format_version,
            first_row_id=metadata.next_row_id,
        )
        name = f"snap-{self.snapshot_id}-{next(self._attempts)}-{self._commit_uuid}.avro"
        return self._write(metadata_file_location(metadata, name), encoded.body), encoded

    def unused(self, used: Collection[str]) -> tuple[str, ...]:
        """What was written so far and is not in `used`."""
        kept = frozenset(used)
        return tuple(location for location in self._created if location not in kept)

    def _encode(
        self,
        entries: Sequence[ManifestEntry],
        metadata: TableMetadata,
        spec_id: int,
        content: ManifestContent,
    ) -> EncodedManifest:
        spec = metadata.spec(spec_id)
        return encode_manifest(
            entries,
            spec=spec,
            schema=metadata.partition_schema(spec),
            content=content,
            format_version=metadata.format_version,
            snapshot_id=self.snapshot_id,
        )

    def _store(self, encoded: EncodedManifest, metadata: TableMetadata) -> ManifestFile:
        name = f"{self._commit_uuid}-m{next(self._manifest_numbers)}.avro"
        return encoded.at(self._write(metadata_file_location(metadata, name), encoded.body))

    def _write(self, location: str, body: bytes) -> str:
        # Remembered before it is written: a write that failed may have left something too.
        self._created.append(location)
        self._io.write(location, body)
        return location
