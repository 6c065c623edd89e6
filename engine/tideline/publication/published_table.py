"""The Iceberg table that a Hudi table is published as: in the same folder, below `metadata/`.

It is recognised by the property `tideline.hudi.table`, and is nobody else's: `gc.enabled` is false,
so that no engine of Iceberg deletes Hudi's files, whether as expired or as orphans.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

import pyarrow as pa

from tideline.errors import TableNotFoundError, UnsupportedTableError
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import META_COLUMNS
from tideline.iceberg.metadata.metadata_update import (
    AssertRefSnapshotId,
    AssertTableUuid,
    MetadataUpdate,
)
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.snapshot import MAIN
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_system_table import FOLDER, FileSystemTable
from tideline.iceberg.table.new_table import create_in_folder, new_metadata
from tideline.iceberg.table.table_operations import CommitOutcome, Loaded
from tideline.publication.columns import Ids, mapping_json, published_schema
from tideline.publication.owner import OWNER
from tideline.publication.partitions import PublishedPartitions

INSTANT = "tideline.hudi.instant"
"""Of a snapshot, and of the table: the newest Hudi commit that it holds."""
INSTANTS = "tideline.hudi.instants"
"""Of the table: the published instants of the active timeline."""
SNAPSHOT = "tideline.hudi.snapshot"
"""Of the table: the snapshot that was published last."""
PUBLICATION = "tideline.publication"
"""Of a snapshot: `snapshot`, all rows, or `read-optimised`, those of the base files."""
NAME_MAPPING = "schema.name-mapping.default"

_OWN_PROPERTIES = {
    "gc.enabled": "false",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


class PublishedTable:
    """The publication of an open Hudi table, which may not be there yet."""

    def __init__(self, table: HoodieTable) -> None:
        self.table = table
        self.operations = FileSystemTable(table.location, store=table.store, clock=table.clock)

    def load(self) -> Loaded | None:
        """Its newest metadata, None when it was never published.

        Raises UnsupportedTableError when another Iceberg table is in the folder.
        """
        try:
            loaded = self.operations.load()
        except TableNotFoundError:
            return None
        if OWNER not in loaded.metadata.properties:
            message = "the folder holds an Iceberg table that is not a publication of this one"
            raise UnsupportedTableError(message, table=self.table.uri, path=FOLDER)
        return loaded

    def beginning(self, columns: pa.Schema) -> TableMetadata:
        """What an empty publication is."""
        every = [*map(pa.field, META_COLUMNS, repeat(pa.string())), *columns]
        mapping = Ids((), 0).named(every, ())
        schema = Schema(0, published_schema(columns, mapping, {}))
        partitions = PublishedPartitions.of(self.table.config, schema)
        properties = {
            **_OWN_PROPERTIES,
            OWNER: self.table.config.name,
            NAME_MAPPING: mapping_json(mapping),
        }
        return new_metadata(
            self.table.location.uri,
            schema,
            partitions.specs,
            properties,
            now_ms=self.table.clock.now_ms(),
        )

    def create(self, columns: pa.Schema) -> None:
        """Begin it, empty, unless another process does so first."""
        create_in_folder(self.table.store, self.beginning(columns))

    def commit(self, base: Loaded, updates: Iterable[MetadataUpdate]) -> CommitOutcome:
        """Change metadata alone, if the publication is still `base`. Raises as a commit does."""
        metadata = base.metadata
        head = AssertRefSnapshotId(MAIN, metadata.current_snapshot_id)
        return self.operations.commit(base, (AssertTableUuid(metadata.table_uuid), head), updates)
