"""Where a table's vended credentials come from: its catalog, opened here or by its name.

Needs the extra `iceberg`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tideline.errors import ConfigError
from tideline.iceberg.table.catalog_opening import asking_catalog, open_catalog
from tideline.iceberg.table.catalog_rest import BoundedRestCatalog
from tideline.iceberg.table.vended_keys import Vended


@dataclass(frozen=True, slots=True)
class OpenedOrigin:
    """A catalog that is open. Pickled it is one that is opened by its name, where the process's own
    configuration has opened it."""

    catalog: BoundedRestCatalog
    identifier: tuple[str, ...]

    def __call__(self) -> Vended:
        with asking_catalog(table=".".join((self.catalog.name, *self.identifier))):
            return self.catalog.vended_for(self.identifier)

    def __reduce__(self) -> tuple[Any, ...]:
        asked = self.catalog.asked
        if asked is None:
            raise TypeError("credentials that a process was given are not pickled")
        return NamedOrigin, (self.catalog.name, asked, self.catalog.timeout_s, self.identifier)


@dataclass(frozen=True, slots=True)
class NamedOrigin:
    """A catalog that is opened when it is first needed, with the configuration of this process."""

    name: str
    properties: tuple[tuple[str, str], ...]
    timeout_s: float
    identifier: tuple[str, ...]

    def __call__(self) -> Vended:
        return _opened(self)()


@lru_cache(maxsize=64)
def _opened(named: NamedOrigin) -> OpenedOrigin:
    """Raises what `open_catalog` raises, ConfigError for what is no REST catalog here."""
    catalog = open_catalog(named.name, dict(named.properties), timeout_s=named.timeout_s)
    if not isinstance(catalog, BoundedRestCatalog):
        message = "this process's configuration has another kind of catalog of this name"
        raise ConfigError(message, value=named.name)
    return OpenedOrigin(catalog, named.identifier)
