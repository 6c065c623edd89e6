"""Opening catalogs of every kind, and what their clients raise. Needs the extra `iceberg`.

A catalog is opened for the author of its address (`CatalogAccess`): for this process itself with
PyIceberg's configuration and environment, for a resource with what the resource and its Secret say
and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError
from pyiceberg.catalog import Catalog, CatalogType, load_catalog
from pyiceberg.exceptions import ForbiddenError, UnauthorizedError
from pyiceberg.utils.config import merge_config

from tideline.distribution import with_extra
from tideline.errors import ConfigError, StorageUnavailableError, TidelineError
from tideline.iceberg.table.catalog_config import (
    catalog_kind,
    configured_catalog,
    refuse_foreign_credentials,
)
from tideline.iceberg.table.catalog_glue import BoundedGlueCatalog
from tideline.iceberg.table.catalog_hive_lookup import LookedUpHiveCatalog
from tideline.iceberg.table.catalog_name import address_variable
from tideline.iceberg.table.catalog_rest import BoundedRestCatalog, name_ignored
from tideline.secret_values import note_environment, note_secrets, sounds_secret
from tideline.trust.author import Author
from tideline.trust.catalog_access import OF_PROCESS, CatalogAccess
from tideline.trust.catalog_properties import URI, admitted, secrets_in
from tideline.trust.foreign_words import quoted
from tideline.trust.server_address import is_plain_url, is_same_place
from tideline.trust.sql_address import resource_sql_address

TIMEOUT_S = 60.0
CLIENT_FAULTS = (Exception, SystemExit)
"""A client, or a program that this process's configuration names for it, raises anything."""
_PROGRAM = "py-catalog-impl"
_OF_RESOURCES = (CatalogType.REST, CatalogType.SQL, CatalogType.GLUE, CatalogType.HIVE)


def open_catalog(
    name: str,
    properties: Mapping[str, str] | None = None,
    *,
    credentials: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    access: CatalogAccess = OF_PROCESS,
) -> Catalog:
    """A catalog with `properties` such as `uri`, `type` and `warehouse`, and with `credentials` for
    a process that keeps those of several catalogs. One that is no database has
    `timeout_s` for each answer.

    Opened for this process, PyIceberg's configuration and environment
    (`PYICEBERG_CATALOG__<NAME>__...`) describe the rest, and credentials there are not sent to
    another server than theirs.

    Raises StorageUnavailableError when it cannot be reached, ConfigError when it cannot be made
    out, and for properties that are credentials: they only ever come from the environment, that
    configuration or a Secret.
    """
    given = dict(properties or {})
    secret = next(filter(sounds_secret, given), None)
    if secret is not None:
        message = f"catalog property {secret!r} looks like a credential: set it in the environment"
        raise ConfigError(message)
    try:
        if access.is_of_process:
            conf = _of_process(name, given, credentials or {})
        else:
            conf = _of_resource(name, given, credentials or {}, access)
        note_secrets(secrets_in(conf))
        note_environment({URI: str(conf.get(URI, ""))})
        return _opened(name, conf, access, timeout_s, None if credentials else given)
    except TidelineError:
        raise
    except OSError as error:
        # The text of the client's error has addresses of objects in it.
        message = f"the catalog cannot be reached ({type(error).__name__})"
        raise StorageUnavailableError(message, value=name) from error
    except CLIENT_FAULTS as error:
        message = f"the catalog cannot be opened: {words_of(error)}"
        raise ConfigError(message, value=name) from _told(error)


@contextmanager
def asking_catalog(**subject: str) -> Iterator[None]:
    """Raises StorageUnavailableError about `subject` for whatever a catalog's client raises."""
    try:
        yield
    except TidelineError:
        raise
    except (ForbiddenError, UnauthorizedError) as error:
        message = f"the catalog denies access: {words_of(error)}"
        raise StorageUnavailableError(message, **subject) from error
    except OSError as error:
        # The text of the client's error has addresses of objects in it.
        message = f"the catalog does not answer ({type(error).__name__})"
        raise StorageUnavailableError(message, **subject) from error
    except CLIENT_FAULTS as error:
        message = f"the catalog does not answer: {words_of(error)}"
        raise StorageUnavailableError(message, **subject) from _told(error)


def words_of(error: BaseException) -> str:
    """A client's error. What pydantic misses in an answer is named without the answer: there may be
    credentials in it."""
    if not isinstance(error, ValidationError):
        return quoted(error)
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return quoted(
        "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found[:5])
    )


def _told(error: BaseException) -> BaseException | None:
    """What tracebacks show as the cause: pydantic's error has the answer in its text."""
    return None if isinstance(error, ValidationError) else error


def _of_process(
    name: str, given: Mapping[str, Any], credentials: Mapping[str, Any]
) -> dict[str, Any]:
    configured = configured_catalog(name)
    conf: dict[str, Any] = merge_config(configured, {**given, **credentials})
    if given.get(URI) and given[URI] != configured.get(URI):
        refuse_foreign_credentials(name, configured, given)
    return conf


def _of_resource(
    name: str,
    given: Mapping[str, Any],
    credentials: Mapping[str, Any],
    access: CatalogAccess,
) -> dict[str, Any]:
    address, secret_address = given.get(URI), credentials.get(URI)
    if address and secret_address and not is_same_place(address, secret_address):
        message = "the resource and its Secret give different addresses: leave one of them out"
        raise ConfigError(message, value=name)
    found = admitted({**given, **credentials}, Author.RESOURCE)
    name_ignored(name, found.worth_naming, "the resource or its Secret")
    conf: dict[str, Any] = dict(found.properties)
    kind = _kind(name, conf)
    if kind not in _OF_RESOURCES:
        raise ConfigError("a resource names no catalog of this type", value=kind.value)
    if kind is CatalogType.REST and not is_plain_url(conf[URI]):
        raise ConfigError("the address of a REST catalog is http(s)://host/path", value=name)
    is_local = access.allows_local and conf[URI].startswith("sqlite:///")
    if kind is CatalogType.SQL and not is_local:
        conf[URI] = resource_sql_address(conf[URI], access.address_of)
    return conf


def _opened(
    name: str,
    conf: dict[str, Any],
    access: CatalogAccess,
    timeout_s: float,
    asked: Mapping[str, str] | None,
) -> Catalog:
    if access.is_of_process and conf.get(_PROGRAM):
        return load_catalog(name, **conf)
    kind = _kind(name, conf)
    if kind is CatalogType.REST:
        return BoundedRestCatalog(name, conf, access, timeout_s, asked)
    if kind is CatalogType.GLUE:
        return BoundedGlueCatalog(name, conf, access, timeout_s)
    if kind is CatalogType.SQL:
        from tideline.iceberg.table.catalog_sql import BoundedSqlCatalog

        return BoundedSqlCatalog(name, **conf)
    if kind is CatalogType.HIVE and not access.is_of_process:
        return LookedUpHiveCatalog(name, conf, access, timeout_s)
    if kind is CatalogType.HIVE:
        with with_extra("hive", "this catalog needs"):
            from tideline.iceberg.table.catalog_hive import BoundedHiveCatalog

        return BoundedHiveCatalog(name, **conf)
    raise ConfigError("catalogs of this type are not supported", value=kind.value)


def _kind(name: str, conf: Mapping[str, Any]) -> CatalogType:
    """Raises ConfigError, which does not repeat the address: it may hold a password."""
    if not conf.get(URI) and catalog_kind(name, conf) != CatalogType.GLUE.value:
        message = f"URI missing, please provide the catalog's uri, or set {address_variable(name)}"
        raise ConfigError(message, value=name)
    try:
        return CatalogType(catalog_kind(name, conf))
    except ValueError as error:
        message = "neither its type nor its address says what kind of catalog it is"
        raise ConfigError(message, value=name) from error
