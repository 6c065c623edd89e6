"""Whether a Hudi table is published: read without Arrow, which services do without."""

from __future__ import annotations

from tideline.errors import TableNotFoundError
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.iceberg.table.file_system_table import FileSystemTable
from tideline.publication.owner import OWNER


def is_published(table: HoodieTable) -> bool:
    """Whether it ever was; an Iceberg table that somebody else keeps in the folder is theirs.

    Raises CorruptTableError, UnsupportedTableError and StorageUnavailableError.
    """
    try:
        loaded = FileSystemTable(table.location, store=table.store, clock=table.clock).load()
    except TableNotFoundError:
        return False
    return OWNER in loaded.metadata.properties
