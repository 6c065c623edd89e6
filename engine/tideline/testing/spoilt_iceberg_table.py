"""An Iceberg table in a folder, whose metadata, manifests and files a test spoils."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tideline
from tideline.iceberg.manifest.manifest_entry import ManifestContent, ManifestEntry, ManifestFile
from tideline.iceberg.manifest.manifest_file import encode_manifest
from tideline.iceberg.manifest.manifest_list import encode_manifest_list
from tideline.iceberg.manifest.manifest_reading import entries_of, manifests_of
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg_lake_table import IcebergLakeTable

Entries = list[ManifestEntry]
Manifests = tuple[ManifestFile, ...]


@dataclass(frozen=True, slots=True)
class SpoiltIcebergTable:
    """A table that a test changes behind its back; each method changes what the newest metadata
    says now."""

    folder: Path

    def open(self) -> IcebergLakeTable:
        return tideline.open_iceberg(str(self.folder))

    @property
    def snapshot(self) -> Snapshot:
        found = self.open().current_snapshot
        assert found is not None
        return found

    def manifests(self, content: ManifestContent = ManifestContent.DATA) -> Manifests:
        listed = manifests_of(self.open().table.io, self.snapshot)
        return tuple(manifest for manifest in listed if manifest.content is content)

    def entries(self, manifest: ManifestFile) -> Entries:
        return list(entries_of(self.open().table.io, manifest))

    def path(self, location: str) -> Path:
        """The file of a recorded location."""
        return self.folder / location.removeprefix(f"{self.open().metadata.location}/")

    def change_metadata(self, change: Callable[[dict[str, Any]], None]) -> None:
        newest = max(self.folder.glob("metadata/v*.metadata.json"), key=_number)
        document = json.loads(newest.read_text())
        change(document)
        newest.write_text(json.dumps(document))

    def change_list(self, change: Callable[[Manifests], Iterable[ManifestFile]]) -> None:
        snapshot, table = self.snapshot, self.open()
        encoded = encode_manifest_list(
            change(manifests_of(table.table.io, snapshot)),
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number,
            format_version=table.version,
            first_row_id=snapshot.first_row_id,
        )
        assert snapshot.manifest_list is not None
        self.path(snapshot.manifest_list).write_bytes(encoded.body)

    def change_one(self, **fields: Any) -> None:
        """Fields of what the list says of the newest manifest of data files."""
        path = self.manifests()[0].path
        self.change_list(
            lambda manifests: [
                replace(manifest, **fields) if manifest.path == path else manifest
                for manifest in manifests
            ]
        )

    def change_entries(
        self,
        change: Callable[[Entries], Entries],
        content: ManifestContent = ManifestContent.DATA,
    ) -> None:
        """The newest manifest; the list gets its counts and length."""
        manifest, metadata = self.manifests(content)[0], self.open().metadata
        encoded = encode_manifest(
            change(self.entries(manifest)),
            spec=metadata.spec(manifest.spec_id),
            schema=metadata.schema(),
            content=content,
            format_version=metadata.format_version,
            snapshot_id=manifest.added_snapshot_id,
        )
        self.path(manifest.path).write_bytes(encoded.body)
        told = replace(
            encoded.at(manifest.path),
            sequence_number=manifest.sequence_number,
            min_sequence_number=manifest.min_sequence_number,
            partitions=manifest.partitions,
            first_row_id=manifest.first_row_id,
        )
        self.change_list(
            lambda manifests: [told if old.path == told.path else old for old in manifests]
        )


def with_file(entries: Entries, **fields: Any) -> Entries:
    """The same with other fields of the first file."""
    first = entries[0]
    return [replace(first, data_file=replace(first.data_file, **fields)), *entries[1:]]


def _number(path: Path) -> int:
    return int(path.name.removeprefix("v").partition(".")[0])
