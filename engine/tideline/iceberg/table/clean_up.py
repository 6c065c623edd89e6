"""Removal of files that nothing uses, of this process' own making or named by old metadata.

Only ever called when the outcome is certain. It is a courtesy: a file that could not be removed is
an orphan for the removal of orphan files, so nothing here fails a commit.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from tideline.errors import TidelineError
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.table_roots import TableRoots
from tideline.storage.nested_tables import is_table_metadata_file
from tideline.wording import counted

_log = logging.getLogger(__name__)


def remove_quietly(io: FileIO, locations: Iterable[str]) -> None:
    """Remove files of this process' own making; what fails is only logged."""
    listed = tuple(locations)
    if not listed:
        return
    try:
        io.remove_written(listed)
    except TidelineError as error:
        _log.warning("left %s that nothing uses: %s", counted(len(listed), "file"), error)


def remove_old_metadata(io: FileIO, metadata: TableMetadata, dropped: Iterable[str]) -> None:
    """Remove metadata files that the log named before; what fails is only logged.

    One that is no metadata file, or not below the table's folders, is none that it ever wrote.
    """
    roots = TableRoots.of(io, metadata)
    own = [path for path in dropped if is_table_metadata_file(path) and roots.refusal(path) is None]
    try:
        roots.remove_many(own, "the removal of old metadata")
    except TidelineError as error:
        _log.warning("left %s: %s", counted(len(own), "old metadata file"), error)
