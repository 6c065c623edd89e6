"""Publishing after commits, and before files go, for tables whose property asks for it.

A commit has taken place when it is published, so what fails here is said and not raised: the next
commit, or `tideline publish`, makes up for it. Before cleaning it is the other way round: readers
of Iceberg would lose files, so the publication goes first, and where it fails nothing is deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from tideline.errors import ConflictError, UnsupportedTableError
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.table_operations import Loaded
from tideline.publication.expiry import drop_snapshots, snapshots_needing
from tideline.publication.place import place_in, stored_place
from tideline.publication.publish import publish_table
from tideline.publication.published_table import PublishedTable, merges_logs

_log = logging.getLogger(__name__)


def publish_after_commit(table: HoodieTable, given: Mapping[str, str]) -> str | None:
    """Publish what was committed where the table's properties, and settings over them, say; in
    words what came of it, None where nothing was new."""
    properties = table.config.properties
    try:
        done = publish_table(
            table, place_in(properties, given), merges=merges_logs({**properties, **given})
        )
    except Exception as error:
        # Any error: the commit itself took place.
        _log.warning("what is committed could not be published as Iceberg: %s", error)
        return (
            f"publishing as Iceberg failed, the next commit or `tideline publish` makes up for it: "
            f"{error}"
        )
    return f"published as Iceberg snapshot {done.snapshot_id}" if done.is_new else None


def make_way(
    table: HoodieTable, paths: Collection[str], given: Mapping[str, str] | None = None
) -> None:
    """Let a published table go of files that are about to be deleted: publish the newest state,
    then drop the snapshots that need one of them. `given` are settings over the table's own.

    Raises what publishing raises, and ConflictError when the newest state needs one.
    """
    try:
        place = PublishedTable(table, stored_place(table.config.properties, given))
        publish_table(table, place.place)
    except UnsupportedTableError as error:
        message = (
            "nothing was deleted, because snapshots that are published as Iceberg need the files "
            f"and newer ones cannot be published: {error.message}; to give the publication up, "
            "run `tideline publish URI --stop --drop`"
        )
        raise UnsupportedTableError(
            message, table=table.uri, path=error.path, value=error.value
        ) from error

    def needing_now(loaded: Loaded) -> tuple[TableMetadata, set[int]]:
        locations = {f"{loaded.metadata.location}/{path}" for path in paths}
        found = snapshots_needing(place.operations.io, loaded.metadata, locations)
        return loaded.metadata, found

    metadata, needing = place.read_newest(needing_now)
    if metadata.current_snapshot_id in needing:
        message = (
            "files to be deleted are part of what is published as Iceberg; nothing was deleted"
        )
        raise ConflictError(message, table=table.uri)
    drop_snapshots(place, needing)
