"""The files that metadata leads to: manifest lists, manifests, data and delete files, statistics.

Only what comparing and counting needs is decoded from a manifest, which is several times as fast as
reading its entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from tideline.bounded.parsing import faults_named
from tideline.formats.avro_container import open_container
from tideline.iceberg.manifest.fixed_partitions import manifest_records
from tideline.iceberg.manifest.manifest_entry import EntryStatus, FileContent
from tideline.iceberg.metadata.avro_type import not_null
from tideline.iceberg.metadata.table_metadata import TableMetadata

_STATUS, _DATA_FILE, _PATH, _SIZE, _CONTENT = 0, 2, 100, 104, 134
_WANTED = frozenset({_STATUS, _DATA_FILE, _PATH, _SIZE, _CONTENT})


class FileKind(Enum):
    """What a file is to its table; the values are what Iceberg's procedures count."""

    DATA = "data_files"
    POSITION_DELETES = "position_delete_files"
    EQUALITY_DELETES = "equality_delete_files"
    MANIFEST = "manifest_files"
    MANIFEST_LIST = "manifest_lists"
    STATISTICS = "statistics_files"


CONTENT_KINDS = frozenset({FileKind.DATA, FileKind.POSITION_DELETES, FileKind.EQUALITY_DELETES})
"""What manifests list; the other kinds are metadata."""

KINDS = {
    FileContent.DATA: FileKind.DATA,
    FileContent.POSITION_DELETES: FileKind.POSITION_DELETES,
    FileContent.EQUALITY_DELETES: FileKind.EQUALITY_DELETES,
}


@dataclass(frozen=True, slots=True)
class ReachableFile:
    """A file by its recorded location; a size of None is not recorded."""

    kind: FileKind
    location: str
    size_bytes: int | None = None


@dataclass(slots=True)
class FileTally:
    """How many files of each kind, and their bytes as far as metadata says."""

    counts: Counter[FileKind] = field(default_factory=Counter)
    size_bytes: int = 0

    def add(self, files: Iterable[ReachableFile]) -> None:
        """Count files."""
        for file in files:
            self.counts[file.kind] += 1
            self.size_bytes += file.size_bytes or 0

    def json(self) -> dict[str, int]:
        """Every kind's count, and the bytes."""
        return {kind.value: self.counts[kind] for kind in FileKind} | {"bytes": self.size_bytes}


def live_files(body: bytes, *, path: str) -> Iterator[ReachableFile]:
    """The data or delete files that a manifest does not list as deleted.

    Raises CorruptTableError.
    """
    container = open_container(body, path=path)
    message = "a manifest lacks fields that the specification requires"
    with faults_named(message, path=path):
        entry = {field["field-id"]: field for field in container.schema["fields"]}
        file = {item["field-id"]: item for item in not_null(entry[_DATA_FILE]["type"])["fields"]}
        status, data_file, location = (
            fields[number]["name"]
            for fields, number in ((entry, _STATUS), (entry, _DATA_FILE), (file, _PATH))
        )
        size, content = (file.get(number, {}).get("name", "") for number in (_SIZE, _CONTENT))
        for record in manifest_records(container, lambda field: field.get("field-id") in _WANTED):
            if record[status] != EntryStatus.DELETED:
                found = record[data_file]
                kind = KINDS[FileContent(found.get(content) or 0)]
                yield ReachableFile(kind, found[location], found.get(size))


def statistics_files(metadata: TableMetadata) -> Iterator[ReachableFile]:
    """Statistics and partition statistics of all snapshots."""
    for name in ("statistics", "partition-statistics"):
        for item in metadata.document.get(name) or ():
            size = item.get("file-size-in-bytes")
            yield ReachableFile(FileKind.STATISTICS, item["statistics-path"], size)
