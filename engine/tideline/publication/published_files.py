"""The files of a publication in its Hudi table's folder, by name: all but the data files."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.metadata.table_property import OWNER
from tideline.iceberg.table.file_system_table import FOLDER
from tideline.storage.nested_tables import is_table_metadata_file
from tideline.storage.object_store import ObjectStore

MERGED = f"{FOLDER}/merged"
_NUMBER = re.compile(r"\D*(\d+)")
_OTHERS = (".avro", "/version-hint.text")


@dataclass(frozen=True, slots=True)
class PublishedFiles:
    """Paths of metadata files, oldest first, of what they lead to, and of merged slices."""

    versions: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()

    @classmethod
    def of(cls, store: ObjectStore) -> PublishedFiles:
        """What is there, whosever it is. Raises StorageUnavailableError."""
        paths = [info.path for info in store.list_directory(FOLDER).objects]
        versions = sorted(filter(is_table_metadata_file, paths), key=version_of)
        others = tuple(path for path in paths if path.endswith(_OTHERS))
        return cls(tuple(versions), others, tuple(info.path for info in store.list(MERGED)))

    @classmethod
    def of_table(cls, store: ObjectStore) -> PublishedFiles:
        """The publication of the Hudi table in this folder, as its newest metadata says; nothing of
        an Iceberg table of somebody else's, and nothing where that cannot be read.

        Raises StorageUnavailableError.
        """
        found = cls.of(store)
        if not found.versions:
            return cls()
        try:
            metadata = TableMetadata.parse(store.get(found.versions[-1]), path=found.versions[-1])
        except (CorruptTableError, ObjectNotFoundError, UnsupportedTableError):
            return cls()
        return found if OWNER in metadata.properties else cls()

    def paths(self) -> tuple[str, ...]:
        """All, in an order in which they can be deleted in several turns: the newest metadata, by
        which the others are known to be the publication's, goes last."""
        return (*self.merged, *self.others, *self.versions)


def version_of(path: str) -> int:
    """The number in the name of a metadata file."""
    match = _NUMBER.match(path.rpartition("/")[2])
    return int(match[1]) if match else 0


def is_manifest(path: str) -> bool:
    """Whether the name is that of a manifest, and not of a list of them."""
    return path.endswith(".avro") and not path.rpartition("/")[2].startswith("snap-")
