"""Whether a table's files can be read and deleted, for what commits first and then deletes files.

A catalog commits for everybody who may change the table there; its files have rights of their own.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from tideline.errors import StorageUnavailableError
from tideline.iceberg.manifest.manifest_reading import manifests_of
from tideline.iceberg.metadata.data_locations import DataLocations
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.table_operations import metadata_file_location
from tideline.iceberg.table.table_roots import TableRoots


def check_access(io: FileIO, metadata: TableMetadata) -> None:
    """Read the list of the newest snapshot, and delete an object that is not there in each folder
    where files of the table are deleted: a store refuses that to those who may delete nothing.

    Raises StorageUnavailableError where either is refused, ObjectNotFoundError and
    CorruptTableError.
    """
    manifests_of(io, metadata.snapshot())
    roots = TableRoots.of(io, metadata)
    name = f"{uuid.uuid4()}.access"
    for folder in (metadata_file_location(metadata, ""), f"{DataLocations.of(metadata).folder}/"):
        if roots.refusal(f"{folder}{name}") is None:
            _check_local_folder(io, folder)
            roots.remove_many((f"{folder}{name}",), "the check of access")


def _check_local_folder(io: FileIO, folder: str) -> None:
    """Of a file that is not there the system does not say whether it could be deleted."""
    store, path = io.place(folder)
    local = store.local_path(path.rstrip("/"))
    if local is not None and Path(local).is_dir() and not os.access(local, os.W_OK | os.X_OK):
        message = "files cannot be deleted here: the folder cannot be written to"
        raise StorageUnavailableError(message, table=io.location.uri, path=folder)
