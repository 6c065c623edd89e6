"""Table properties that maintenance uses, as typed values."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.errors import ConfigError
from tideline.iceberg.metadata.owner import refuse_publication
from tideline.iceberg.metadata.table_metadata import TableMetadata


def whole_property(properties: Mapping[str, str], name: str, default: int) -> int:
    """A property that is a whole number. Raises ConfigError naming it."""
    text = properties.get(name)
    try:
        return default if text is None else int(text)
    except ValueError:
        raise ConfigError(f"the table property {name} must be a whole number", value=text) from None


def refuse_without_gc(metadata: TableMetadata) -> None:
    """Files of a table that shares them with another must not go. Raises ConfigError."""
    refuse_publication(metadata)
    if metadata.properties.get("gc.enabled", "true").strip().lower() != "true":
        message = "gc.enabled is false: deleting files of this table may corrupt another"
        raise ConfigError(message, table=metadata.location)
