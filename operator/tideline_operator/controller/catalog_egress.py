"""How requests to a table's catalog leave the operator.

A REST catalog is reached by way of the egress proxy. The client of an SQL catalog takes no proxy:
its host is resolved and judged here, and the client connects to the address. Its parameters are an
allow-list, because some of libpq's name files or further hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from tideline.errors import ConfigError
from tideline.storage.egress_proxy import EgressProxy
from tideline.storage.egress_route import EgressRoute
from tideline_operator.resources.resolved import ResolvedTable

_DRIVERS = ("postgresql", "postgresql+psycopg2", "postgresql+psycopg")
_PARAMETERS = ("sslmode", "connect_timeout", "application_name", "target_session_attrs")
_PORT = 5432


@dataclass(frozen=True, slots=True)
class CatalogEgress:
    """The way to one catalog, with its `credentials`."""

    uri: str
    credentials: Mapping[str, str]
    namespace: str
    proxy: EgressProxy | None
    route: EgressRoute | None

    @classmethod
    def of(
        cls, proxy: EgressProxy | None, table: ResolvedTable, credentials: Mapping[str, str]
    ) -> CatalogEgress:
        """The way to the catalog of a table; without a proxy, the direct one."""
        catalog = table.resource.spec.home_catalog
        uri = credentials.get("uri") or (None if catalog is None else catalog.uri) or ""
        namespace = table.resource.metadata.namespace
        route = None if proxy is None else proxy.of(namespace).anywhere(uri)
        return cls(uri, credentials, namespace, proxy, route)

    @property
    def proxy_url(self) -> str | None:
        """For the client of a REST catalog."""
        return None if self.route is None else self.route.proxy_url

    def pinned(self) -> dict[str, str]:
        """The credentials; those for an SQL catalog on a server with the address that it has.

        Raises StorageUnavailableError when that may not be connected to, ConfigError.
        """
        given = dict(self.credentials)
        if self.proxy is None or not self.uri.startswith(("postgresql", "mysql", "mssql")):
            return given
        return {**given, "uri": pinned_uri(self.uri, self.proxy, self.namespace)}

    def problem(self) -> str | None:
        """Why the last connection was not made, where egress knows it."""
        return None if self.route is None else self.route.problem()


def pinned_uri(uri: str, proxy: EgressProxy, namespace: str) -> str:
    """The address of a PostgreSQL server as SQLAlchemy takes it, with the numeric address of its
    host, which alone is connected to; the certificate is still that of the host.

    Raises StorageUnavailableError when the address may not be connected to, ConfigError.
    """
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port or _PORT
        given = parse_qsl(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        raise ConfigError("the address of the SQL catalog is not a URL") from None
    if parts.scheme not in _DRIVERS or not host:
        raise ConfigError(
            f"SQL catalogs on a server: write {' or '.join(_DRIVERS)}, and a host",
            value=parts.scheme,
        )
    for name, _ in given:
        if name not in _PARAMETERS:
            allowed = ", ".join(_PARAMETERS)
            raise ConfigError(
                f"the address of the SQL catalog has a parameter that is not one of {allowed}",
                value=name,
            )
    address = proxy.checked_address(namespace, host, port)
    query = urlencode([*given, ("hostaddr", address)], quote_via=quote)
    return parts._replace(query=query).geturl()
