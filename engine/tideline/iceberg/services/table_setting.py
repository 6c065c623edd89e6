"""Table properties that maintenance uses, as typed values."""

from __future__ import annotations

from tideline.errors import ConfigError
from tideline.iceberg.metadata.owner import refuse_publication
from tideline.iceberg.metadata.table_metadata import TableMetadata

OLDER_THAN_AGE_MS = "older_than_age_ms"
RETAIN_LAST = "retain_last"
QUIET_FOR_MS = "quiet_for_ms"
"""Tideline's own: what was the newest snapshot within that time is not expired."""

SHARED = "gc.enabled is false: deleting files of this table may corrupt another"


def refuse_without_gc(metadata: TableMetadata) -> None:
    """Files of a table that shares them with another must not go. Raises ConfigError."""
    refuse_publication(metadata)
    if shares_files(metadata):
        raise ConfigError(SHARED, table=metadata.location)


def shares_files(metadata: TableMetadata) -> bool:
    """Whether another table may need the files of this one."""
    return metadata.properties.get("gc.enabled", "true").strip().lower() != "true"
