"""Giving a publication up.

1. The table no longer asks for it after every commit.
2. The catalog, if there is one, forgets the table: readers find none from here on.
3. The metadata files in the table's folder are deleted, the newest last, then manifests and lists,
   and only then the properties that name the catalog. Data files are Hudi's and stay.

Died on the way: the same call does the rest. While files of metadata are there, cleaning still
looks for their publication, so nothing that it needs goes in between.
"""

from __future__ import annotations

import logging

from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import PUBLISH
from tideline.iceberg.table.file_system_table import FileSystemTable
from tideline.publication.operations import UnconfiguredCatalogError
from tideline.publication.place import without_place
from tideline.publication.published_files import PublishedFiles
from tideline.publication.published_table import PublishedTable
from tideline.storage.delete_scope import DeleteScope

_log = logging.getLogger(__name__)


def stop_publishing(table: HoodieTable) -> bool:
    """Take the property away that has every commit published; whether it was there.

    What is published stays, and stays readable: cleaning continues to look after it.
    """
    with table.lock().acquire():
        if PUBLISH not in table.properties.reload().properties:
            return False
        table.properties.update({PUBLISH: None})
        return True


def drop_publication(table: HoodieTable) -> int:
    """Stop publishing, and delete what is published; returns how many files of metadata there were.

    Not while others publish. A catalog that only the table's properties name is not asked, and may
    keep its entry: a warning says so. Raises UnsupportedTableError when the Iceberg table is not a
    publication of this one, StorageUnavailableError, and ConfigError when the catalog cannot be
    opened.
    """
    stop_publishing(table)
    _drop_from_catalog(table)
    files = PublishedFiles.of(table.store)
    scope = DeleteScope(table.store, "dropping the publication")
    for paths in (files.versions[:-1], files.versions[-1:], files.others, files.merged):
        scope.remove_many(paths)
    table.properties.set(without_place())
    return len(files.paths())


def _drop_from_catalog(table: HoodieTable) -> None:
    try:
        place = PublishedTable(table)
    except UnconfiguredCatalogError as error:
        _log.warning("what the catalog knows of it was left, if there is any: %s", error)
        return
    if place.find() is not None and not isinstance(place.operations, FileSystemTable):
        place.operations.drop()
