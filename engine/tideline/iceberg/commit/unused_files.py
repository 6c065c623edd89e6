"""Removal of what the attempts at a commit wrote and the committed snapshot does not use."""

from __future__ import annotations

import logging

from tideline.errors import TidelineError
from tideline.iceberg.commit.metadata_writer import MetadataWriter
from tideline.iceberg.manifest.manifest_reading import manifests_of
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.clean_up import remove_quietly
from tideline.iceberg.table.file_io import FileIO

_log = logging.getLogger(__name__)


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
        _log.warning("cannot find out which manifests of a commit are used: %s", error)
        return
    remove_quietly(io, writer.unused({*used, snapshot.manifest_list}))
