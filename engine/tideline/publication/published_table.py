"""The Iceberg table that a Hudi table is published as: in the same folder, below `metadata/`.

It is recognised by the property `tideline.hudi.table`, and is nobody else's: `gc.enabled` is false,
so that no engine of Iceberg deletes Hudi's files, whether as expired or as orphans.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from typing import TypeVar

import pyarrow as pa

from tideline.errors import ObjectNotFoundError, TableNotFoundError, UnsupportedTableError
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import META_COLUMNS
from tideline.hudi.table.table_config import PUBLISH_MERGE
from tideline.iceberg.metadata.metadata_update import (
    AssertRefSnapshotId,
    AssertTableUuid,
    MetadataUpdate,
)
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.snapshot import MAIN
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.metadata.table_property import OWNER
from tideline.iceberg.table.file_system_table import FOLDER, FileSystemTable
from tideline.iceberg.table.new_table import create_in_folder, new_metadata
from tideline.iceberg.table.table_operations import CommitOutcome, Loaded
from tideline.publication.columns import Ids, mapping_json, published_schema
from tideline.publication.operations import operations_at
from tideline.publication.partitions import PublishedPartitions
from tideline.publication.place import CatalogPlace, place_in, without_place
from tideline.publication.presence import FIRST_VERSION, is_publication, refuse_lost

T = TypeVar("T")

INSTANT = "tideline.hudi.instant"
"""Of a snapshot, and of the table: the newest Hudi commit that it holds."""
INSTANTS = "tideline.hudi.instants"
"""Of the table: the published instants of the active timeline."""
SETTLED_UNTIL = "tideline.hudi.settled-until"
"""Of the table: the time before which no commit was missing in that timeline."""
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

    def __init__(self, table: HoodieTable, place: CatalogPlace | None = None) -> None:
        """At `place`, or else where the table's properties say.

        Raises ConfigError and StorageUnavailableError when a catalog cannot be opened.
        """
        self.table = table
        self.place = place or place_in(table.config.properties)
        self.operations = operations_at(table, self.place)

    def load(self) -> Loaded | None:
        """Its newest metadata, None when it was never published.

        Raises UnsupportedTableError when another Iceberg table is there, ConfigError when it was
        published elsewhere.
        """
        loaded = self.find()
        if loaded is None and self.place is not None:
            refuse_lost(self.table, self.place)
        return loaded

    def find(self) -> Loaded | None:
        """The same, None as well when it was published elsewhere."""
        try:
            loaded = self.operations.load()
        except TableNotFoundError:
            return None
        if not is_publication(self.table, self.place, loaded.metadata):
            where = "the folder" if self.place is None else f"the catalog, at {self.place},"
            message = f"{where} holds an Iceberg table that is not a publication of this one"
            raise UnsupportedTableError(message, table=self.table.uri, path=FOLDER)
        return loaded

    def read_newest(self, read: Callable[[Loaded], T]) -> T:
        """What `read` makes of the newest metadata: again where another process has dropped
        snapshots while they were read.

        Raises TableNotFoundError, and what `read` raises.
        """
        loaded = self.operations.load()
        while True:
            try:
                return read(loaded)
            except ObjectNotFoundError:
                known, loaded = loaded, self.operations.load()
                if loaded.metadata_location == known.metadata_location:
                    raise

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
        first = self.beginning(columns)
        if isinstance(self.operations, FileSystemTable):
            create_in_folder(self.table.store, first)
        else:
            path = f"{FOLDER}/{FIRST_VERSION}{uuid.uuid4()}.metadata.json"
            self.operations.register(self.table.store, path, first)

    def commit(self, base: Loaded, updates: Iterable[MetadataUpdate]) -> CommitOutcome:
        """Change metadata alone, if the publication is still `base`. Raises as a commit does."""
        metadata = base.metadata
        head = AssertRefSnapshotId(MAIN, metadata.current_snapshot_id)
        return self.operations.commit(base, (AssertTableUuid(metadata.table_uuid), head), updates)


def remember_merging(table: HoodieTable, *, merges: bool) -> None:
    """Keep in the table whether its logs are merged for readers of Iceberg."""
    if merges != merges_logs(table.config.properties):
        table.properties.set({PUBLISH_MERGE: str(merges).lower()})


def merges_logs(properties: Mapping[str, str]) -> bool | None:
    """What properties say of it, None for nothing."""
    text = properties.get(PUBLISH_MERGE, "").strip().lower()
    return text == "true" if text else None


def remember_place(table: HoodieTable, place: CatalogPlace) -> None:
    """Keep in the table that this is where it is published, before it is.

    Raises ConfigError when it is published already and the catalog at `place` does not have it, and
    UnsupportedTableError when the catalog has another table of this name.
    """
    if place == place_in(table.config.properties):
        return
    with table.lock().acquire():
        table.properties.reload()
        PublishedTable(table, place).load()
        table.properties.update({**without_place(), **place.to_properties()})
