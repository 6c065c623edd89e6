"""Showing a Hudi table to other engines: as an Iceberg table, and by its name in metastores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tideline.hudi.table.hoodie_table import HoodieTable

if TYPE_CHECKING:
    from tideline.publication.outcome import Published
    from tideline.registration.outcome import Synced


class ShownTable:
    """What `LakeTable` has of it."""

    hoodie_table: HoodieTable

    def publish(
        self,
        *,
        catalog: str | None = None,
        identifier: str | None = None,
        catalog_options: Mapping[str, str] | None = None,
        merge: bool | None = None,
        dry_run: bool = False,
    ) -> Published:
        """Bring the table's Iceberg metadata up to its newest commit: see docs/publishing.md.

        It is in the table's folder, or the table `identifier` (`namespace.name`) of a `catalog`, a
        name in PyIceberg's configuration or a URI, with `catalog_options` `type`, `uri` and
        `warehouse`. `merge`: what logs of a merge-on-read table hold is published as well. The
        table remembers these. `dry_run` only says which files would come and go.
        Raises UnsupportedTableError for what Iceberg could not read rightly, ConfigError for a
        place other than where it is published, ConflictError when other processes were always
        first, UnknownOutcomeError, StorageUnavailableError.
        """
        from tideline.publication.place import place_named
        from tideline.publication.publish import preview_publication, publish_table

        act = preview_publication if dry_run else publish_table
        to = place_named(catalog, identifier, catalog_options)
        return act(self.hoodie_table, to, merges=merge)

    def stop_publishing(self, *, drop: bool = False) -> int:
        """Commits are no longer published; what is published stays, unless `drop`: then a catalog
        forgets it and its metadata is deleted. Returns how many files of metadata that were.

        Raises UnsupportedTableError when the Iceberg table is another's, ConfigError and
        StorageUnavailableError when a catalog cannot be opened.
        """
        from tideline.publication.unpublish import drop_publication, stop_publishing

        if drop:
            return drop_publication(self.hoodie_table)
        stop_publishing(self.hoodie_table)
        return 0

    def sync(
        self,
        *,
        hive: str | None = None,
        glue: str | None = None,
        database: str | None = None,
        name: str | None = None,
        all_partitions: bool = False,
        always: bool = False,
        dry_run: bool = False,
    ) -> tuple[Synced, ...]:
        """Register the table in metastores, up to its newest commit: see docs/syncing.md.

        In the Hive metastore at the address `hive`, and in AWS's Glue in the region, or at the
        address, `glue`; else where the table's property `tideline.sync` says. The `database` is
        that of the table's properties or `default` unless given, the `name` the table's.
        `all_partitions` compares those as well that no commit wrote to since the last
        time; `always` keeps in the table that its commits are registered from now on, but not the
        address; `dry_run` only says what would change.
        Raises ConfigError where the metastore has another table of that name, UnsupportedTableError
        for what no metastore can hold, ConflictError when others were always first,
        StorageUnavailableError.
        """
        from tideline.registration.follow import remember_targets, sync_targets
        from tideline.registration.target import chosen_targets

        table = self.hoodie_table
        targets = chosen_targets(table.config, hive=hive, glue=glue, database=database, name=name)
        if always and not dry_run:
            remember_targets(table, targets)
        return sync_targets(table, targets, everything=all_partitions, dry_run=dry_run)

    def stop_syncing(self) -> None:
        """Commits are no longer registered in metastores; what is registered stays."""
        from tideline.registration.follow import forget_targets

        forget_targets(self.hoodie_table)
