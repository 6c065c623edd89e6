"""The metadata of an Iceberg table with very many data files that need not exist."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tideline.iceberg.manifest.manifest_entry import (
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from tideline.iceberg.manifest.manifest_file import encode_manifest
from tideline.iceberg.manifest.manifest_list import encode_manifest_list
from tideline.iceberg.metadata.field_type import NestedField, Primitive
from tideline.iceberg.metadata.partition_spec import IDENTITY, PartitionField, PartitionSpec
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.snapshot import Snapshot, SnapshotRef
from tideline.iceberg.metadata.sort_order import SortOrder
from tideline.iceberg.metadata.table_metadata import TableMetadata

_SNAPSHOT_ID = 3_051_729_675_574_597_004
_TIME_MS = 1_767_225_600_000
_FIRST_DAY = 20_454  # 2026-01-01
_REGIONS = 8
_MEASURES = 7
SCHEMA = Schema(
    0,
    (
        NestedField(1, "id", Primitive("long"), required=True),
        NestedField(2, "day", Primitive("date")),
        NestedField(3, "region", Primitive("string")),
        *(NestedField(4 + n, f"measure_{n}", Primitive("double")) for n in range(_MEASURES)),
    ),
)
SPEC = PartitionSpec(
    0,
    (
        PartitionField(2, 1000, "day", IDENTITY),
        PartitionField(3, 1001, "region", IDENTITY),
    ),
)


@dataclass(frozen=True, slots=True)
class ManyFiles:
    """One snapshot with `files` data files in `manifests` manifests, each of one day.

    Manifests are as large as the table's properties want them.
    """

    folder: Path
    files: int
    manifests: int

    @property
    def metadata_file(self) -> Path:
        """The only metadata file."""
        return self.folder / "metadata" / "v1.metadata.json"

    def write(self) -> None:
        """Write all metadata."""
        self.metadata_file.parent.mkdir(parents=True)
        manifests = [self._manifest(number) for number in range(self.manifests)]
        listed = encode_manifest_list(
            manifests,
            snapshot_id=_SNAPSHOT_ID,
            parent_snapshot_id=None,
            sequence_number=1,
            format_version=2,
        )
        path = self.metadata_file.with_name("snap-1.avro")
        path.write_bytes(listed.body)
        length_bytes = max(manifest.length_bytes for manifest in manifests)
        self.metadata_file.write_bytes(self._metadata(str(path), length_bytes).to_bytes())
        self.metadata_file.with_name("version-hint.text").write_text("1")

    def _manifest(self, number: int) -> ManifestFile:
        encoded = encode_manifest(
            self._entries(number),
            spec=SPEC,
            schema=SCHEMA,
            content=ManifestContent.DATA,
            format_version=2,
            snapshot_id=_SNAPSHOT_ID,
        )
        path = self.metadata_file.with_name(f"{uuid.UUID(int=number)}-m0.avro")
        path.write_bytes(encoded.body)
        return encoded.at(str(path))

    def _entries(self, manifest: int) -> Iterator[ManifestEntry]:
        first = self.files * manifest // self.manifests
        for number in range(first, self.files * (manifest + 1) // self.manifests):
            file = self._file(number, _FIRST_DAY + manifest % 365)
            yield ManifestEntry(EntryStatus.ADDED, _SNAPSHOT_ID, None, None, file)

    def _file(self, number: int, day: int) -> DataFile:
        region = f"r{number % _REGIONS}"
        name = f"00000-{number}-{uuid.UUID(int=number)}-0-00001.parquet"
        ids = range(1, len(SCHEMA.fields) + 1)
        return DataFile(
            FileContent.DATA,
            f"{self.folder}/data/day={day}/region={region}/{name}",
            "PARQUET",
            SPEC.spec_id,
            (day, region),
            record_count=10_000,
            file_size_bytes=1_000_000,
            column_sizes=dict.fromkeys(ids, 100_000),
            value_counts=dict.fromkeys(ids, 10_000),
            null_value_counts=dict.fromkeys(ids, 0),
            nan_value_counts=dict.fromkeys(ids[3:], 0),
            lower_bounds=_bounds(number * 10_000, day, region, 0.5),
            upper_bounds=_bounds(number * 10_000 + 9_999, day, region, 99.5),
            split_offsets=(4,),
            sort_order_id=0,
        )

    def _metadata(self, manifest_list: str, target_size_bytes: int) -> TableMetadata:
        snapshot = Snapshot(
            _SNAPSHOT_ID, None, 1, _TIME_MS, "append", {}, manifest_list, schema_id=0
        )
        return TableMetadata(
            format_version=2,
            table_uuid=str(uuid.UUID(int=1)),
            location=str(self.folder),
            last_sequence_number=1,
            last_updated_ms=_TIME_MS,
            last_column_id=SCHEMA.highest_field_id,
            schemas=(SCHEMA,),
            current_schema_id=0,
            partition_specs=(SPEC,),
            default_spec_id=0,
            last_partition_id=1001,
            sort_orders=(SortOrder(),),
            default_sort_order_id=0,
            properties={"commit.manifest.target-size-bytes": str(target_size_bytes)},
            snapshots=(snapshot,),
            current_snapshot_id=_SNAPSHOT_ID,
            refs={"main": SnapshotRef(_SNAPSHOT_ID)},
            snapshot_log=(),
            metadata_log=(),
            next_row_id=None,
        )


def _bounds(id_: int, day: int, region: str, measure: float) -> dict[int, bytes]:
    bounds: dict[int, Any] = {
        1: struct.pack("<q", id_),
        2: struct.pack("<i", day),
        3: region.encode(),
    }
    return bounds | {4 + n: struct.pack("<d", measure + n) for n in range(_MEASURES)}
