"""The log of earlier metadata files (spec, "Table Metadata", `metadata-log`)."""

from __future__ import annotations

from dataclasses import replace

from tideline.iceberg.metadata.table_metadata import MetadataLogEntry, TableMetadata
from tideline.iceberg.metadata.table_property import whole_property

LENGTH_PROPERTY = "write.metadata.previous-versions-max"
LENGTH_DEFAULT = 100


def with_logged(metadata: TableMetadata, previous: TableMetadata, location: str) -> TableMetadata:
    """`metadata` with the file it replaces logged, the oldest dropped. Raises ConfigError."""
    entry = MetadataLogEntry(location, previous.last_updated_ms)
    length = max(1, whole_property(metadata.properties, LENGTH_PROPERTY, LENGTH_DEFAULT))
    log = (*previous.metadata_log, entry)[-length:]
    return replace(metadata, metadata_log=log)


def dropped_from_log(metadata: TableMetadata, previous: TableMetadata) -> tuple[str, ...]:
    """The metadata files that the log named before and does not name any more."""
    kept = {entry.metadata_file for entry in metadata.metadata_log}
    listed = (entry.metadata_file for entry in previous.metadata_log)
    return tuple(location for location in listed if location not in kept)
