"""How a catalog is named, and the extra that it takes to open one. Needs nothing of that extra."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from tideline.distribution import with_extra

DEFAULT_CATALOG = "default"
"""PyIceberg's own name for a catalog that has none."""


def catalog_named(
    name: str | None, properties: Mapping[str, str] | None = None
) -> tuple[str, dict[str, str]]:
    """The name and properties of a catalog that people name, or give the URI of."""
    given = dict(properties or {})
    if name is not None and "://" in name:
        given.setdefault("uri", name)
        name = None
    return name or DEFAULT_CATALOG, given


def address_variable(name: str) -> str:
    """The environment variable in which PyIceberg finds the address of a catalog."""
    return property_variable(name, "uri")


def property_variable(name: str, what: str) -> str:
    """That of another property, one of a single word."""
    return f"PYICEBERG_CATALOG__{name.upper().replace('-', '_')}__{what.upper()}"


def with_catalogs() -> AbstractContextManager[None]:
    """Raises ConfigError where importing within fails because the extra is not installed."""
    return with_extra("iceberg", "catalogs need")
