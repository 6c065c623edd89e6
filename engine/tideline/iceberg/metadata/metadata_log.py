"""The log of earlier metadata files (spec, "Table Metadata", `metadata-log`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tideline.errors import ConfigError
from tideline.iceberg.metadata.table_metadata import MetadataLogEntry, TableMetadata

LENGTH_PROPERTY = "write.metadata.previous-versions-max"
LENGTH_DEFAULT = 100


def with_logged(metadata: TableMetadata, previous: TableMetadata, location: str) -> TableMetadata:
    """`metadata` with the file it replaces logged, the oldest dropped. Raises ConfigError."""
    entry = MetadataLogEntry(location, previous.last_updated_ms)
    log = (*previous.metadata_log, entry)[-_length(metadata.properties) :]
    return replace(metadata, metadata_log=log)


def dropped_from_log(metadata: TableMetadata, previous: TableMetadata) -> tuple[str, ...]:
    """The metadata files that the log named before and does not name any more."""
    kept = {entry.metadata_file for entry in metadata.metadata_log}
    listed = (entry.metadata_file for entry in previous.metadata_log)
    return tuple(location for location in listed if location not in kept)


def _length(properties: Mapping[str, str]) -> int:
    text = properties.get(LENGTH_PROPERTY, str(LENGTH_DEFAULT))
    try:
        return max(1, int(text))
    except ValueError as error:
        message = f"the table property {LENGTH_PROPERTY} must be a whole number"
        raise ConfigError(message, value=text) from error
