"""What this process's own configuration says of a catalog: PyIceberg's files and variables.

`.pyiceberg.yaml` is read from `PYICEBERG_HOME` and the home directory. PyIceberg also takes one
from the current directory, which may be a folder of tables that others write: there it is not
taken, as it may name programs. Needs the extra `iceberg`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyiceberg.catalog import CatalogType, infer_catalog_type
from pyiceberg.utils.config import Config

from tideline.errors import ConfigError
from tideline.glue.address import GlueAddress
from tideline.iceberg.table.catalog_name import address_variable, property_variable
from tideline.trust.catalog_properties import TYPE, URI, WAREHOUSE, credentials_among
from tideline.trust.foreign_words import quoted
from tideline.trust.server_address import ServerAddress, is_plain_url, is_same_place

_FILE = ".pyiceberg.yaml"
_WITHOUT_SECRETS = ("sqlite:///", "thrift://")
_log = logging.getLogger(__name__)


def configured_catalog(name: str) -> dict[str, Any]:
    """The properties of a catalog, none for one that is not configured. Raises ConfigError."""
    try:
        catalogs = _configuration().get("catalog") or {}
        found = catalogs.get(name.lower()) or catalogs.get(name.lower().replace("_", "-")) or {}
        return dict(found)
    except (ValueError, TypeError, AttributeError) as error:
        message = (
            f"PyIceberg's configuration of the catalog cannot be read ({type(error).__name__})"
        )
        raise ConfigError(message, value=name) from error


def catalog_kind(name: str, properties: Mapping[str, Any]) -> str | None:
    """The type that properties give, or else the one that follows from their address; None where
    none does."""
    if properties.get(TYPE):
        return str(properties[TYPE]).lower()
    try:
        found = infer_catalog_type(name, dict(properties))
    except ValueError:
        return None
    return None if found is None else str(found.value)


def catalog_arguments(name: str, given: Mapping[str, Any]) -> tuple[str, ...]:
    """How the command line names a catalog that was opened with these properties: by its name where
    this process's own configuration has it, else by its address, where that holds no secret."""
    address = str(given.get(URI, ""))
    try:
        is_configured = configured_catalog(name).get(URI) == address
    except ConfigError:
        is_configured = False
    if is_configured or not (is_plain_url(address) or address.startswith(_WITHOUT_SECRETS)):
        return "--catalog", name
    warehouse = given.get(WAREHOUSE)
    option = ("--catalog-option", f"{WAREHOUSE}={warehouse}") if warehouse else ()
    return "--catalog", address, *option


def refuse_foreign_credentials(
    name: str, configured: Mapping[str, Any], given: Mapping[str, Any]
) -> None:
    """Raise ConfigError where the credentials of the server that configuration names would be sent
    to another."""
    own, other = configured.get(URI), given.get(URI)
    if not own or not other or ServerAddress.of(own) == ServerAddress.of(other):
        return
    bound = credentials_among(configured)
    if bound:
        message = (
            f"catalog {name} is at {ServerAddress.of(own)} in PyIceberg's configuration, whose "
            f"{bound[0]} is not sent to {ServerAddress.of(other)}: give the other catalog another "
            "name"
        )
        raise ConfigError(message, value=name)


def refuse_unconfigured(name: str, uri: str | None, kind: str | None, *, remedy: str) -> None:
    """Raise ConfigError, which ends with `remedy`, unless this process's own configuration names a
    catalog of this name at this address."""
    configured = configured_catalog(name)
    own = _own_address(name, configured)
    variable = address_variable(name)
    if not own:
        raise ConfigError(
            f"this process's configuration names no such catalog, and an address is not taken from "
            f"a table: set {variable}{remedy}",
            value=name,
        )
    if uri is not None and not is_same_place(own, uri):
        raise ConfigError(
            f"this process's configuration has another address for catalog {name} "
            f"({ServerAddress.of(own)}), and one is not taken from a table: correct "
            f"{variable}{remedy}",
            value=name,
        )
    if kind is not None and catalog_kind(name, configured) != kind.lower():
        message = (
            f"this process's configuration has another kind of catalog than {quoted(kind)}: "
            f"correct {property_variable(name, TYPE)}{remedy}"
        )
        raise ConfigError(message, value=name)


def _own_address(name: str, configured: Mapping[str, Any]) -> str | None:
    if catalog_kind(name, configured) == CatalogType.GLUE.value:
        return GlueAddress.of(configured, os.environ).url
    return configured.get(URI)


def _configuration() -> Mapping[str, Any]:
    homes = filter(None, (os.environ.get("PYICEBERG_HOME"), str(Path("~").expanduser())))
    has_own = any(Path(home, _FILE).is_file() for home in homes)
    if has_own or not Path(_FILE).is_file():
        return Config().config
    _log.warning(
        "%s of the current directory is not taken: set PYICEBERG_HOME to the folder of one that is",
        _FILE,
    )
    return Config._from_environment_variables({})
