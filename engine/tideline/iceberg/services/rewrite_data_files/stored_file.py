"""Data files whose footers are looked at, for their row groups may be copied. Needs no Arrow."""

from __future__ import annotations

from functools import partial

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.iceberg.data.copy_rules import CopyRules, Treatment
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.table.file_io import FileIO
from tideline.parquet.spliced_file import StoredParquet
from tideline.storage.object_store import ObjectStore


def reason_to_encode(rules: CopyRules, task: FileScanTask) -> Treatment | None:
    """Why no row group of a file is copied, as far as the metadata shows it; None otherwise."""
    file = task.data_file
    if task.equality_deletes:
        return Treatment.DELETES
    if file.file_format != "PARQUET" or file.key_metadata is not None:
        return Treatment.UNREADABLE
    return None if rules.may_hold_copies(file.file_size_bytes) else Treatment.SMALL


def open_stored(io: FileIO, file: DataFile) -> StoredParquet | None:
    """A data file's footer; None for one that cannot be used.

    Raises ObjectNotFoundError and StorageUnavailableError.
    """
    store, path = io.place(file.file_path)
    read = partial(_read, store, path)
    try:
        return StoredParquet.open(read, file.file_size_bytes, path=file.file_path)
    except (CorruptTableError, UnsupportedTableError):
        return None


def _read(store: ObjectStore, path: str, offset: int, length: int) -> bytes:
    return store.get_range(path, offset=offset, length=length)
