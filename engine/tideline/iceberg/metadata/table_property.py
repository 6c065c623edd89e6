"""Properties of a table as typed values."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.errors import ConfigError

RESERVED = frozenset(
    {
        *("uuid", "snapshot-count", "current-snapshot-id", "current-snapshot-summary"),
        *("current-snapshot-timestamp-ms", "current-schema", "default-partition-spec"),
        *("default-sort-order", "format-version"),
    }
)
"""What Iceberg keeps for facts that metadata has elsewhere."""


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
