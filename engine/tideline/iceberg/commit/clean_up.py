"""Removal of what a commit wrote and no snapshot uses, and of old metadata files.

Only ever called when the outcome is certain. It is a courtesy: a file that could not be removed is
an orphan for the removal of orphan files, so nothing here fails a commit.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from tideline.errors import TidelineError
from tideline.iceberg.commit.manifest_reading import manifests_of
from tideline.iceberg.commit.metadata_writer import MetadataWriter
from tideline.iceberg.file_io import FileIO
from tideline.iceberg.table_metadata import TableMetadata
from tideline.iceberg.table_roots import TableRoots
from tideline.storage.nested_tables import is_table_metadata_file

_log = logging.getLogger(__name__)


def remove_quietly(io: FileIO, locations: Iterable[str]) -> None:
    """Remove files of this process' own making; what fails is only logged."""
    listed = tuple(locations)
    if not listed:
        return
    try:
        io.remove_written(listed)
    except TidelineError as error:
        _log.warning("left %d files that nothing uses: %s", len(listed), error)


def remove_old_metadata(io: FileIO, metadata: TableMetadata, dropped: Iterable[str]) -> None:
    """Remove metadata files that the log named before; what fails is only logged.

    One that is no metadata file, or not below the table's folders, is none that it ever wrote.
    """
    roots = TableRoots.of(io, metadata)
    own = [one for one in dropped if is_table_metadata_file(one) and roots.refusal(one) is None]
    try:
        roots.remove_many(own, "the removal of old metadata")
    except TidelineError as error:
        _log.warning("left %d old metadata files: %s", len(own), error)


def remove_unused(io: FileIO, writer: MetadataWriter, metadata: TableMetadata) -> None:
    """After a commit: remove what earlier attempts wrote and the committed snapshot does not list.

    When the committed snapshot cannot be found or read any more, nothing is removed.
    """
    snapshot = metadata.snapshot(writer.snapshot_id)
    if snapshot is None or snapshot.manifest_list is None:
        return
    if writer.unused((snapshot.manifest_list,)) == ():
        return
    try:
        used = {manifest.path for manifest in manifests_of(io, snapshot)}
    except TidelineError as error:
        _log.warning("cannot tell which manifests of a commit are used: %s", error)
        return
    remove_quietly(io, writer.unused({*used, snapshot.manifest_list}))
