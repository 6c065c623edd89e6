"""Where a table is published: in its own folder, or as a table of a catalog.

The place is a part of the table's properties, written before anything is published there, so that
everybody who deletes files of the table looks in the right place first. Credentials are no part of
it: each process has them in its environment or PyIceberg's configuration.

Anybody who may write to the table's folder may write an address into the table's properties. So no
request goes there: it is compared with the one that the process's own configuration, or its caller,
gives. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tideline.errors import ConfigError
from tideline.hudi.table.table_config import (
    PUBLISH_CATALOG,
    PUBLISH_CATALOG_TYPE,
    PUBLISH_CATALOG_URI,
    PUBLISH_CATALOG_WAREHOUSE,
    PUBLISH_IDENTIFIER,
)
from tideline.iceberg.table.catalog_name import address_variable, catalog_named
from tideline.trust.author import Author
from tideline.trust.foreign_words import quoted

_OPTIONS = {
    "type": PUBLISH_CATALOG_TYPE,
    "uri": PUBLISH_CATALOG_URI,
    "warehouse": PUBLISH_CATALOG_WAREHOUSE,
}
_HOLDS_PASSWORD = re.compile(r"[a-z0-9+.-]+://[^/@]*:[^/@]*@.*", re.IGNORECASE)
_IDENTIFIER = re.compile(r"[^.\s]+(\.[^.\s]+)+")
_IDENTIFIER_LENGTH_MAX = 512
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


@dataclass(frozen=True, slots=True)
class CatalogPlace:
    """A table `identifier` (`namespace.name`) of a catalog, by PyIceberg's name for the catalog and
    what of its address is kept with the table. `by` gave the address, the table alone the options
    `of_table`."""

    catalog: str
    identifier: str
    options: tuple[tuple[str, str], ...] = ()
    by: Author = field(default=Author.PROCESS, compare=False)
    of_table: frozenset[str] = field(default=frozenset(), compare=False)

    @classmethod
    def of(
        cls,
        catalog: str | None,
        identifier: str,
        options: Mapping[str, str] | None = None,
        *,
        by: Author = Author.PROCESS,
    ) -> CatalogPlace:
        """A place as people name it, the catalog by its name or URI.

        Raises ConfigError for a name that is none, an identifier without a namespace, for a
        password, and for options but `type`, `uri` and `warehouse`.
        """
        name, given = catalog_named(catalog, options)
        if not _NAME.fullmatch(name):
            message = "the name of a catalog has letters, digits, `_`, `-` and dots, 63 at most"
            raise ConfigError(message, value=quoted(name))
        is_short = len(identifier) <= _IDENTIFIER_LENGTH_MAX
        if not (is_short and identifier.isprintable() and _IDENTIFIER.fullmatch(identifier)):
            message = "a published table is named by its namespace, a dot and its name"
            raise ConfigError(message, value=quoted(identifier))
        unknown = sorted(set(given) - set(_OPTIONS))
        if unknown:
            message = (
                f"only {', '.join(_OPTIONS)} of a catalog are kept with the table: set others in "
                "PyIceberg's configuration or environment"
            )
            raise ConfigError(message, value=unknown[0])
        if _HOLDS_PASSWORD.fullmatch(given.get("uri", "")):
            variable = address_variable(name)
            message = f"the catalog's address holds a password: set it in {variable}"
            raise ConfigError(message)
        return cls(name, identifier, tuple(sorted(given.items())), by)

    def to_properties(self) -> dict[str, str]:
        """What a table keeps of it."""
        options = {_OPTIONS[name]: text for name, text in self.options}
        return {PUBLISH_CATALOG: self.catalog, PUBLISH_IDENTIFIER: self.identifier, **options}

    def __str__(self) -> str:
        return quoted(f"{self.identifier} in catalog {self.uri or self.catalog}")

    @property
    def address(self) -> tuple[str, str | None]:
        """The catalog's name and URI."""
        return self.catalog, self.uri

    @property
    def uri(self) -> str | None:
        """The address that is kept with the table, None where only its name is."""
        return dict(self.options).get("uri")


def place_named(
    catalog: str | None,
    identifier: str | None,
    options: Mapping[str, str] | None = None,
    *,
    by: Author = Author.PROCESS,
) -> CatalogPlace | None:
    """The place that somebody names, None when nothing is named. Raises ConfigError."""
    if identifier:
        return CatalogPlace.of(catalog, identifier, options, by=by)
    if catalog or options:
        raise ConfigError("a catalog needs an identifier: the namespace, a dot and the name")
    return None


def place_in(
    properties: Mapping[str, str], given: Mapping[str, str] | None = None
) -> CatalogPlace | None:
    """The place that a table's properties and settings over them name, None for the table's own
    folder. The address is the caller's where a setting is. Raises ConfigError."""
    settings = dict(given or {})
    if "://" in settings.get(PUBLISH_CATALOG, ""):
        settings.setdefault(PUBLISH_CATALOG_URI, settings[PUBLISH_CATALOG])
    named = {**properties, **settings}
    options = {name: named[key] for name, key in _OPTIONS.items() if named.get(key)}
    catalog, identifier = named.get(PUBLISH_CATALOG), named.get(PUBLISH_IDENTIFIER)
    by = Author.PROCESS if settings.get(PUBLISH_CATALOG_URI) else Author.TABLE
    place = place_named(catalog, identifier, options, by=by)
    of_table = (name for name in options if not settings.get(_OPTIONS[name]))
    return None if place is None else replace(place, of_table=frozenset(of_table))


def stored_place(
    properties: Mapping[str, str], given: Mapping[str, str] | None = None
) -> CatalogPlace | None:
    """The place that a table's properties name, whatever settings say; the address is the caller's
    where a setting gives the same. Raises ConfigError."""
    place, named = place_in(properties), place_in(properties, given)
    if place is None or named is None or place.address != named.address:
        return place
    is_same = place.options == named.options
    return replace(place, by=named.by, of_table=named.of_table if is_same else place.of_table)


def without_place() -> dict[str, str | None]:
    """The change of properties that takes any catalog away."""
    return dict.fromkeys((PUBLISH_CATALOG, PUBLISH_IDENTIFIER, *_OPTIONS.values()))
