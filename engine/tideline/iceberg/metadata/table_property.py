"""Properties of a table as typed values."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.errors import ConfigError

TARGET_SIZE, TARGET_SIZE_BYTES = "write.target-file-size-bytes", 512 * 1024 * 1024
"""How large data files are to be, and are where the table does not say it."""
DELETE_TARGET_SIZE, DELETE_TARGET_SIZE_BYTES = (
    "write.delete.target-file-size-bytes",
    64 * 1024 * 1024,
)
"""The same of delete files."""
METADATA_PATH = "write.metadata.path"
"""Where a table's metadata is, other than below its location."""
OWNER = "tideline.hudi.table"
"""Marks an Iceberg table as the publication of a Hudi table, whose name is its value."""
ENCRYPTION_KEY = "encryption.key-id"
"""The key by which a table is encrypted."""
_RESERVED = frozenset(
    {
        *("uuid", "snapshot-count", "current-snapshot-id", "current-snapshot-summary"),
        *("current-snapshot-timestamp-ms", "current-schema", "default-partition-spec"),
        *("default-sort-order", "format-version"),
    }
)
"""What Iceberg keeps for facts that metadata has elsewhere."""


def why_not_set(name: str) -> str | None:
    """Why a property is not to be set nor unset, None for those that may be."""
    if name in _RESERVED or name == OWNER:
        return f"the property {name} is reserved, and not to be set"
    if name == ENCRYPTION_KEY:
        return f"encrypted tables ({name}) are neither read nor written: leave it out"
    return None


def whole_property(
    properties: Mapping[str, str], name: str, default: int, *, least: int | None = None
) -> int:
    """A property that is a whole number, at least `least`. Raises ConfigError naming it."""
    text = properties.get(name)
    try:
        value = default if text is None else int(text)
        if least is None or value >= least:
            return value
    except ValueError:
        pass
    bounds = "" if least is None else f" from {least}"
    raise ConfigError(f"the table property {name} must be a whole number{bounds}", value=text)
