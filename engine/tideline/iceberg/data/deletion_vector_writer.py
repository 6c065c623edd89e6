"""New deletion vectors (format version 3): one Puffin file with a vector for each data file.

Source: Iceberg's specification, "Deletion Vectors".
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from tideline.iceberg.data.deletion_vector import BLOB_TYPE, Positions, encode_deletion_vector
from tideline.iceberg.data.puffin import Blob, encode_puffin
from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent
from tideline.iceberg.metadata.data_locations import DataLocations
from tideline.iceberg.metadata.partition_spec import PartitionSpec
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO

_ROW_POSITION = 2147483645
"""The id of the column of row numbers, which a vector is of."""
_INHERITED = -1
_WRITER = "Tideline"


def write_deletion_vectors(
    io: FileIO, metadata: TableMetadata, deleted: Iterable[tuple[DataFile, Positions]]
) -> tuple[DataFile, ...]:
    """The vectors of some data files, each with all rows of it that are deleted. Raises
    StorageUnavailableError."""
    given = list(deleted)
    if not given:
        return ()
    blobs = [
        (_blob(file, positions), encode_deletion_vector(positions)) for file, positions in given
    ]
    body, placed = encode_puffin(blobs, created_by=_WRITER)
    name = f"{uuid.uuid4()}-deletes.puffin"
    uri = DataLocations.of(metadata).of_file(name, PartitionSpec(0, ()), (), metadata.schema())
    io.write(uri, body)
    return tuple(
        DataFile(
            content=FileContent.POSITION_DELETES,
            file_path=uri,
            file_format="PUFFIN",
            spec_id=file.spec_id,
            partition=file.partition,
            record_count=len(positions),
            file_size_bytes=len(body),
            referenced_data_file=file.file_path,
            content_offset=blob.offset,
            content_size_bytes=blob.length,
        )
        for (file, positions), blob in zip(given, placed, strict=True)
    )


def _blob(file: DataFile, positions: Positions) -> Blob:
    properties = {"referenced-data-file": file.file_path, "cardinality": str(len(positions))}
    return Blob(BLOB_TYPE, (_ROW_POSITION,), _INHERITED, _INHERITED, 0, 0, None, properties)
