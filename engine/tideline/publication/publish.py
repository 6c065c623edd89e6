"""Bringing a table's Iceberg publication up to its newest completed commit.

1. The publication is read first and the timeline after it: what is published next is never older
   than what is published now, and never ahead of what has completed.
2. Commits that completed since name the partitions in which files have changed; only these are
   listed, here and in the manifests. Everything is compared where that is not known: the first
   time, after a restore, and when another writer has changed the publication.
3. Footers of new files are read, files are written for what logs hold where that is published
   (`merged_slices`), and one Iceberg commit exchanges the files, with the schema and
   the list of published instants. It is void when another process published meanwhile, or dropped
   or cleaned what was being read; then all of it is done again.

Died before the commit: the next publication does all of it. Died after it: the next finds nothing
to do. Manifests of a commit that was not made are left, as with any writer of Iceberg.
"""

from __future__ import annotations

from tideline.errors import (
    ConflictError,
    CorruptTableError,
    ObjectNotFoundError,
    UnsupportedTableError,
)
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.iceberg.table.table_operations import Loaded
from tideline.publication.outcome import Published
from tideline.publication.place import CatalogPlace
from tideline.publication.published_table import PublishedTable, remember_merging, remember_place
from tideline.publication.step import PublicationStep
from tideline.retry import RetryPolicy


def preview_publication(
    table: HoodieTable, to: CatalogPlace | None = None, *, merges: bool | None = None
) -> Published:
    """What `publish_table` would publish, without doing it. Raises as it does."""
    refuse_unpublishable(table)
    place = PublishedTable(table, to)
    base = place.load()
    timeline = table.timeline()
    columns = table.schemas.newest(timeline)
    if columns is None or not len(timeline.completed()):
        return Published(None)
    if base is None:
        base = Loaded(place.beginning(columns), "")
    return PublicationStep(table, place, base, timeline, columns, merges=merges).preview()


def publish_table(
    table: HoodieTable, to: CatalogPlace | None = None, *, merges: bool | None = None
) -> Published:
    """Publish what has completed: in the catalog `to`, or else where the table's properties say,
    which is its own folder unless they name a catalog; with what logs hold where it `merges` them,
    or else where properties say so. The table remembers what is given.

    Raises UnsupportedTableError for what cannot be published, ConfigError for a place that is not
    the publication's, ConflictError when others were always first, UnknownOutcomeError,
    CorruptTableError and StorageUnavailableError.
    """
    refuse_unpublishable(table)
    if to is not None:
        remember_place(table, to)
    if merges is not None:
        remember_merging(table, merges=merges)
    place = PublishedTable(table, to)
    for _ in RetryPolicy().attempts(table.clock):
        base = place.load()
        timeline = table.timeline()
        columns = table.schemas.newest(timeline)
        if columns is None or not len(timeline.completed()):
            return Published(None)
        if base is None:
            place.create(columns)
            continue
        step = PublicationStep(table, place, base, timeline, columns)
        try:
            outcome = step.take()
        except (ObjectNotFoundError, CorruptTableError):
            # A log that was cleaned makes the table corrupt for its readers.
            if not _has_moved(table, place, step):
                raise
            continue
        if isinstance(outcome, Published):
            return outcome
    raise ConflictError("other processes were always first to publish", table=table.uri)


def _has_moved(table: HoodieTable, place: PublishedTable, step: PublicationStep) -> bool:
    """Whether others published, or wrote or cleaned, since a step began: files may have gone."""
    now = place.operations.load()
    is_known = now.metadata_location == step.base.metadata_location
    return not is_known or table.timeline().instants != step.timeline.instants


def refuse_unpublishable(table: HoodieTable) -> None:
    """Raise UnsupportedTableError for a table that Iceberg could not read rightly."""
    config = table.config
    if config.base_file_format != "PARQUET" or config.bootstrap_base_path is not None:
        message = "only tables of plain Parquet files can be published as Iceberg"
        raise UnsupportedTableError(message, table=table.uri)
