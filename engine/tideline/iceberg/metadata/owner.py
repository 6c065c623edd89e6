"""Iceberg tables that are not their own: a Hudi table is published as them."""

from __future__ import annotations

from tideline.errors import ConfigError
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.metadata.table_property import OWNER


def refuse_publication(metadata: TableMetadata) -> None:
    """Raise ConfigError for one: the next publication would take out what is rewritten in it."""
    owner = metadata.properties.get(OWNER)
    if owner is not None:
        message = f"Hudi table {owner!r} is published as this one, and its services maintain both"
        raise ConfigError(message, table=metadata.location)
