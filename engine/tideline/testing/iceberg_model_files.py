"""The files of an `IcebergModel`: written as lists of numbers, read as the specification says."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent, ManifestEntry
from tideline.iceberg.manifest.manifest_reading import entries_of, manifests_of
from tideline.iceberg.metadata.snapshot import MAIN
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO

PATH_FIELD_ID = 2147483546
UNPARTITIONED_ID = 1


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The live files of a branch at one time, and new files for the same table."""

    io: FileIO
    metadata: TableMetadata
    live: tuple[ManifestEntry, ...]

    @classmethod
    def of(cls, io: FileIO, metadata: TableMetadata, branch: str = MAIN) -> ModelFiles:
        listed = (
            entry
            for manifest in manifests_of(io, metadata.ref_snapshot(branch))
            for entry in entries_of(io, manifest, live_only=True)
        )
        return cls(io, metadata, tuple(listed))

    def data(self) -> list[ManifestEntry]:
        """The data files."""
        return [
            manifest_entry
            for manifest_entry in self.live
            if manifest_entry.data_file.content is FileContent.DATA
        ]

    def deletes(self) -> list[ManifestEntry]:
        """The delete files."""
        return [
            manifest_entry
            for manifest_entry in self.live
            if manifest_entry.data_file.content is not FileContent.DATA
        ]

    def visible_rows(self, entry: ManifestEntry) -> list[int]:
        """The rows of a data file that no delete applies to (spec, "Scan Planning")."""
        rows: list[int] = self._read(entry.data_file)
        gone_values: set[int] = set()
        gone_positions = self._deleted_positions(entry)
        for delete in self.deletes():
            file = delete.data_file
            if (
                file.content is FileContent.EQUALITY_DELETES
                and _number(delete) > _number(entry)
                and (file.spec_id == UNPARTITIONED_ID or _same_partition(file, entry.data_file))
            ):
                gone_values.update(self._read(file))
        return [
            row
            for at, row in enumerate(rows)
            if at not in gone_positions and row not in gone_values
        ]

    def write_rows(self, numbers: Iterable[int], spec_id: int) -> list[DataFile]:
        """New data files, one per partition."""
        return [
            self._write(part, partition, spec_id)
            for partition, part in _partitioned(numbers, spec_id).items()
        ]

    def write_values(self, numbers: Iterable[int], spec_id: int) -> list[DataFile]:
        """New equality delete files, one per partition."""
        return [
            replace(file, content=FileContent.EQUALITY_DELETES, equality_ids=(1,))
            for file in self.write_rows(numbers, spec_id)
        ]

    def write_positions(
        self, numbers: frozenset[int], *, names_file: bool
    ) -> tuple[list[DataFile], list[DataFile], frozenset[str]]:
        """Deletes that go, deletes that come, and the data files that must stay for them."""
        removed: list[DataFile] = []
        added: list[DataFile] = []
        required: set[str] = set()
        for entry in self.data():
            visible = set(self.visible_rows(entry)) & numbers
            rows: list[int] = self._read(entry.data_file)
            hits = {at for at, row in enumerate(rows) if row in visible}
            if not hits:
                continue
            required.add(entry.data_file.file_path)
            if self.metadata.format_version > 2:
                old = [
                    delete_file.data_file
                    for delete_file in self.deletes()
                    if _is_about(delete_file, entry)
                ]
                removed += old
                hits |= self._deleted_positions(entry)
            added.append(
                self._position_delete(entry.data_file, sorted(hits), names_file=names_file)
            )
        return removed, added, frozenset(required)

    def write_positions_of(
        self, files: Sequence[DataFile], numbers: frozenset[int]
    ) -> list[DataFile]:
        """Deletes of rows in files that are not live yet."""
        hits = {
            file.file_path: [at for at, row in enumerate(self._read(file)) if row in numbers]
            for file in files
        }
        return [
            self._position_delete(file, hits[file.file_path], names_file=True)
            for file in files
            if hits[file.file_path]
        ]

    def without(self, numbers: frozenset[int]) -> tuple[list[DataFile], list[DataFile]]:
        """Data files with any of the rows, and files of their other rows to replace them."""
        removed: list[DataFile] = []
        added: list[DataFile] = []
        for entry in self.data():
            visible = self.visible_rows(entry)
            if numbers.intersection(visible):
                removed.append(entry.data_file)
                kept = [row for row in visible if row not in numbers]
                added += self.write_rows(kept, entry.data_file.spec_id)
        return removed, added

    def _deleted_positions(self, entry: ManifestEntry) -> set[int]:
        path = entry.data_file.file_path
        return {
            at
            for delete in self.deletes()
            if delete.data_file.content is FileContent.POSITION_DELETES
            and _number(delete) >= _number(entry)
            and (_is_about(delete, entry) or _same_partition(delete.data_file, entry.data_file))
            for name, at in self._read(delete.data_file)
            if name == path
        }

    def _position_delete(self, data: DataFile, hits: list[int], *, names_file: bool) -> DataFile:
        body = [[data.file_path, at] for at in hits]
        file = self._write(body, data.partition, data.spec_id)
        file = replace(file, content=FileContent.POSITION_DELETES)
        if self.metadata.format_version > 2:
            return replace(
                file,
                file_format="PUFFIN",
                referenced_data_file=data.file_path,
                content_offset=4,
                content_size_bytes=len(hits),
            )
        if not names_file:
            return file
        bounds = {PATH_FIELD_ID: data.file_path.encode()}
        return replace(file, lower_bounds=bounds, upper_bounds=bounds)

    def _write(self, rows: list[Any], partition: tuple[Any, ...], spec_id: int) -> DataFile:
        path = f"{self.metadata.location}/data/{uuid.uuid4()}.json"
        body = json.dumps(rows).encode()
        self.io.write(path, body)
        return DataFile(
            content=FileContent.DATA,
            file_path=path,
            file_format="PARQUET",
            spec_id=spec_id,
            partition=partition,
            record_count=len(rows),
            file_size_bytes=len(body),
            value_counts={1: len(rows)},
        )

    def _read(self, file: DataFile) -> Any:
        return json.loads(self.io.read(file.file_path))


def _partitioned(numbers: Iterable[int], spec_id: int) -> dict[tuple[Any, ...], list[int]]:
    parts: dict[tuple[Any, ...], list[int]] = {}
    for number in numbers:
        partition = () if spec_id == UNPARTITIONED_ID else (("even", "odd")[number % 2],)
        parts.setdefault(partition, []).append(number)
    return parts


def _number(entry: ManifestEntry) -> int:
    assert entry.sequence_number is not None
    return entry.sequence_number


def _same_partition(left: DataFile, right: DataFile) -> bool:
    return (left.spec_id, left.partition) == (right.spec_id, right.partition)


def _is_about(delete: ManifestEntry, entry: ManifestEntry) -> bool:
    return delete.data_file.referenced_data_file == entry.data_file.file_path
