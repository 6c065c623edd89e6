"""Whether a Hudi table is published: read without Arrow, which services do without.

A catalog that has no such table does not prove that nothing is published: the table may have been
renamed there, or the catalog been looked for in the wrong place. So metadata of snapshots in the
table's folder counts as a publication that is somewhere else.
"""

from __future__ import annotations

from collections.abc import Mapping

from tideline.errors import ConfigError, TableNotFoundError
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.metadata.table_property import OWNER
from tideline.iceberg.table.file_system_table import FOLDER
from tideline.publication.operations import UnconfiguredCatalogError, operations_at
from tideline.publication.place import CatalogPlace, stored_place
from tideline.storage.named_places import normalised
from tideline.storage.nested_tables import is_table_metadata_file

FIRST_VERSION = "00000-"
"""How the name of the metadata file begins with which a publication in a catalog begins."""


def is_published(table: HoodieTable, given: Mapping[str, str] | None = None) -> bool:
    """Whether it ever was; an Iceberg table that somebody else keeps in the folder is theirs.

    Reads the table's properties again, with the settings `given` over them. Raises ConfigError
    where a catalog should have the publication and has not, or where snapshots are in the folder
    and only the table's properties say in which catalog; CorruptTableError, UnsupportedTableError
    and StorageUnavailableError.
    """
    place = stored_place(table.properties.reload().properties, given)
    try:
        metadata = operations_at(table, place).load().metadata
    except TableNotFoundError:
        found = False
    except UnconfiguredCatalogError:
        # Whatever its catalog says: what was published has snapshots here.
        if has_snapshots(table):
            raise
        return False
    else:
        found = is_publication(table, place, metadata)
    if not found and place is not None:
        refuse_lost(table, place)
    return found


def is_publication(table: HoodieTable, place: CatalogPlace | None, metadata: TableMetadata) -> bool:
    """Whether an Iceberg table is the publication of this Hudi table."""
    is_here = place is None or normalised(metadata.location) == normalised(table.location.uri)
    return is_here and OWNER in metadata.properties


def refuse_lost(table: HoodieTable, place: CatalogPlace) -> None:
    """Raise ConfigError where the folder has snapshots that the catalog does not have."""
    if has_snapshots(table):
        message = (
            f"there is no publication of this table at {place}, but {FOLDER}/ has the snapshots of "
            "one: name the catalog and table that have it (`tideline publish URI --catalog ... "
            "--identifier ...`), or give it up (`tideline publish URI --stop --drop`)"
        )
        raise ConfigError(message, table=table.uri, path=FOLDER)


def has_snapshots(table: HoodieTable) -> bool:
    """Whether the folder has metadata of snapshots, in a catalog or not."""
    names = (info.path.rpartition("/")[2] for info in table.store.list_directory(FOLDER).objects)
    return any(_is_of_snapshots(name) for name in names)


def _is_of_snapshots(name: str) -> bool:
    is_first = name.startswith(FIRST_VERSION)
    return name.endswith(".avro") or (is_table_metadata_file(name) and not is_first)
