"""Where a table is published: in its own folder, or as a table of a catalog.

The place is a part of the table's properties, written before anything is published there, so that
everybody who deletes files of the table looks in the right place first. Credentials are no part of
it: each process has them in its environment or PyIceberg's configuration. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tideline.errors import ConfigError
from tideline.hudi.table.table_config import (
    PUBLISH_CATALOG,
    PUBLISH_CATALOG_TYPE,
    PUBLISH_CATALOG_URI,
    PUBLISH_CATALOG_WAREHOUSE,
    PUBLISH_IDENTIFIER,
)
from tideline.iceberg.table.catalog_name import catalog_named

_OPTIONS = {
    "type": PUBLISH_CATALOG_TYPE,
    "uri": PUBLISH_CATALOG_URI,
    "warehouse": PUBLISH_CATALOG_WAREHOUSE,
}
_HOLDS_PASSWORD = re.compile(r"[a-z0-9+.-]+://[^/@]*:[^/@]*@.*", re.IGNORECASE)
_IDENTIFIER = re.compile(r"[^.\s]+(\.[^.\s]+)+")


@dataclass(frozen=True, slots=True)
class CatalogPlace:
    """A table `identifier` (`namespace.name`) of a catalog, by PyIceberg's name for the catalog and
    what of its address is kept with the table."""

    catalog: str
    identifier: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls, catalog: str | None, identifier: str, options: Mapping[str, str] | None = None
    ) -> CatalogPlace:
        """A place as people name it, the catalog by its name or URI.

        Raises ConfigError for an identifier without a namespace, for a password, and for options
        but `type`, `uri` and `warehouse`.
        """
        name, given = catalog_named(catalog, options)
        if not _IDENTIFIER.fullmatch(identifier):
            message = "a published table is named by its namespace, a dot and its name"
            raise ConfigError(message, value=identifier)
        unknown = sorted(set(given) - set(_OPTIONS))
        if unknown:
            message = (
                f"only {', '.join(_OPTIONS)} of a catalog are kept with the table: set others in "
                "PyIceberg's configuration or environment"
            )
            raise ConfigError(message, value=unknown[0])
        if _HOLDS_PASSWORD.fullmatch(given.get("uri", "")):
            variable = f"PYICEBERG_CATALOG__{name.upper()}__URI"
            message = f"the catalog's address holds a password: set it in {variable}"
            raise ConfigError(message)
        return cls(name, identifier, tuple(sorted(given.items())))

    def to_properties(self) -> dict[str, str]:
        """What a table keeps of it."""
        options = {_OPTIONS[name]: text for name, text in self.options}
        return {PUBLISH_CATALOG: self.catalog, PUBLISH_IDENTIFIER: self.identifier, **options}

    def __str__(self) -> str:
        return f"{self.identifier} in catalog {dict(self.options).get('uri', self.catalog)}"


def place_named(
    catalog: str | None, identifier: str | None, options: Mapping[str, str] | None = None
) -> CatalogPlace | None:
    """The place that somebody names, None when nothing is named. Raises ConfigError."""
    if identifier:
        return CatalogPlace.of(catalog, identifier, options)
    if catalog or options:
        raise ConfigError("a catalog needs an identifier: the namespace, a dot and the name")
    return None


def place_in(properties: Mapping[str, str]) -> CatalogPlace | None:
    """The place that properties name, None for the table's own folder. Raises ConfigError."""
    options = {name: properties[key] for name, key in _OPTIONS.items() if properties.get(key)}
    catalog, identifier = properties.get(PUBLISH_CATALOG), properties.get(PUBLISH_IDENTIFIER)
    return place_named(catalog, identifier, options)


def without_place() -> dict[str, str | None]:
    """The change of properties that takes any catalog away."""
    return dict.fromkeys((PUBLISH_CATALOG, PUBLISH_IDENTIFIER, *_OPTIONS.values()))
