"""Whether the metadata folder of a table is another table's as well.

A table keeps its folder when it is renamed, and when it is dropped without its files; a new one of
the old name is then created in the same place. Its metadata leads to no file of the first.

Metadata files that the table's own log does not name are read, the newest first. What one of the
table's own names in its log is its own too and is not read, so that of a long history about every
hundredth file is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tideline.bounded.parsing import decompress_bounded, parse_json
from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO
from tideline.trust.foreign_words import quoted

_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class UnloggedMetadata:
    """A metadata file that the newest metadata does not name."""

    location: str
    modified_ms: int


def refuse_second_table(
    io: FileIO,
    metadata: TableMetadata,
    unlogged: Iterable[UnloggedMetadata],
    dropped: Collection[str] = (),
) -> None:
    """Raise UnsupportedTableError where one of these files is of another table, whose UUID is not
    among `dropped`.

    Raises StorageUnavailableError.
    """
    own: set[str] = set()
    allowed = {metadata.table_uuid.lower(), *(path.lower() for path in dropped)}
    for file in sorted(
        unlogged, key=lambda unlogged_metadata: unlogged_metadata.modified_ms, reverse=True
    ):
        if file.location in own:
            continue
        document = _document(io, file.location)
        found = str(document.get("table-uuid") or metadata.table_uuid).lower()
        if found not in allowed:
            raise UnsupportedTableError(
                f"another Iceberg table, {quoted(found)}, keeps its metadata in the same folder, "
                "and its files would count as orphans: where it was dropped and its files may go, "
                "name it with --dropped-table (removeOrphanFiles.droppedTables of a LakeTable)",
                table=metadata.location,
                path=file.location,
            )
        own.update(_logged(document))


def _document(io: FileIO, location: str) -> Mapping[str, Any]:
    """What a metadata file says; nothing for one that is gone, or is no JSON object."""
    try:
        body = io.read(location)
        if body.startswith(_GZIP):
            body = decompress_bounded("gzip", body, path=location)
        document = parse_json(body, path=location)
    except (ObjectNotFoundError, CorruptTableError):
        return {}
    return document if isinstance(document, Mapping) else {}


def _logged(document: Mapping[str, Any]) -> Iterable[str]:
    log = document.get("metadata-log")
    entries = log if isinstance(log, list) else ()
    return (str(entry.get("metadata-file")) for entry in entries if isinstance(entry, Mapping))
