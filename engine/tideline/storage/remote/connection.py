"""A connection to stores at servers: an identity of one's own, and how requests leave the process.

For processes that serve the stores of others. Without a connection a store is opened with what the
environment gives.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tideline.errors import ConfigError
from tideline.storage.egress.client_certificate import ClientCertificate, ClientFor, WatchedFiles
from tideline.storage.egress.client_files import ClientFiles
from tideline.storage.egress.route import Egress, EgressRoute, HostPort
from tideline.storage.remote.client import (
    Endpoint,
    RequestLimits,
    authorities_of,
    client_settings,
)
from tideline.storage.request_gate import RequestGate

if TYPE_CHECKING:
    from tideline.storage.egress.certificate_relay import CertificateRelay

Signer: TypeAlias = Callable[[], dict[str, Any]]
"""Gives current credentials, with their end, when a request is to be signed."""


class Keyless(Enum):
    """Identities that need nothing but their name."""

    AMBIENT = "the identity that this process finds in its environment"
    ANONYMOUS = "nobody: requests are not signed"


class SecretKeys:
    """Credentials as a value of their kind of store. Never shown, never pickled."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def __reduce__(self) -> str:
        raise TypeError("credentials are not pickled")


@dataclass(frozen=True, slots=True)
class Audience:
    """The services, as their kind of store calls them, that credentials are meant for."""

    services: frozenset[str]

    @classmethod
    def of(cls, endpoints: Iterable[Endpoint]) -> Audience:
        return cls(frozenset(endpoint.services[0] for endpoint in endpoints))

    def check(self, endpoint: Endpoint) -> None:
        """Raises ConfigError for an endpoint of another service."""
        if self.services.isdisjoint(endpoint.services):
            meant = ", ".join(sorted(self.services))
            raise ConfigError(
                f"the credentials are for {meant}: they are not used at another endpoint, region "
                "or account",
                value=endpoint.services[0],
            )


def only_at(certificate: ClientCertificate | None, audience: Audience | None) -> ClientFor | None:
    """What shows a certificate to the servers of an audience, and nothing to others."""
    if certificate is None or audience is None:
        return None
    # A service is called by its URL, with its region behind it.
    servers = {HostPort.of_url(service.partition(" ")[0]) for service in audience.services}
    return lambda url: certificate if HostPort.of_url(url) in servers else None


class OpenClient(Protocol):
    """Opens a client of obstore, with generous time limits when it is for `data`."""

    def __call__(
        self,
        bucket: str,
        endpoint: Any,
        limits: RequestLimits,
        *,
        data: bool,
        using: StoreConnection | None = None,
    ) -> Any:
        """Raises ConfigError without credentials, or with such as cannot be used there."""


class StoreConnection:
    """An identity and authorities of one's own, and the clients opened with them.

    Stores opened with the same connection share their clients. It is for stores of one kind, those
    whose locations have the `scheme`. `audience` are the services that the identity is meant for;
    without it, all. `egress` gives the way to a server, `gate` is asked before each request,
    `limits` hold for stores that have none of their own. `denied_advice` says what to do when
    access is denied. `client_certificate` is shown to servers of S3. Not pickled: a worker gets its
    credentials from its own environment.
    """

    def __init__(
        self,
        credentials: SecretKeys | Keyless | Signer,
        *,
        scheme: str = "s3",
        audience: Audience | None = None,
        ca_certificates: bytes | None = None,
        limits: RequestLimits | None = None,
        gate: RequestGate | None = None,
        egress: Egress | None = None,
        denied_advice: str | None = None,
        client_certificate: ClientCertificate | None = None,
    ) -> None:
        self.credentials = credentials
        self.scheme = scheme
        self.audience = audience
        self.ca_certificates = ca_certificates
        self.limits = limits or RequestLimits()
        self.gate = gate
        self.egress = egress
        self.denied_advice = denied_advice
        self.client_certificate = client_certificate
        self._relay: CertificateRelay | None = None
        self._starting_relay = threading.Lock()
        self._clients: dict[tuple[str, Endpoint, RequestLimits, bool], Any] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> str:
        raise TypeError("a connection is not pickled")

    def client(
        self,
        open_client: OpenClient,
        scheme: str,
        bucket: str,
        endpoint: Endpoint,
        limits: RequestLimits,
        *,
        data: bool,
    ) -> Any:
        """The client for a bucket, opened when it is first asked for. Raises ConfigError for a
        store of another kind, or at an endpoint, that the credentials are not meant for."""
        if scheme != self.scheme:
            raise ConfigError(
                f"the credentials are for {self.scheme}:// locations: they are not used elsewhere",
                value=f"{scheme}://{bucket}",
            )
        if self.audience is not None:
            self.audience.check(endpoint)
        key = (bucket, endpoint, limits, data)
        with self._lock:
            if key not in self._clients:
                self._clients[key] = open_client(bucket, endpoint, limits, data=data, using=self)
            return self._clients[key]

    def forget_clients(self) -> None:
        """Open others for requests to come, with what signs them then."""
        with self._lock:
            self._clients.clear()

    def signed_by(self, signer: Signer, denied_advice: str) -> StoreConnection:
        """The same way out of the process, with an identity of S3 that is meant for any endpoint,
        whatever kind of store this connection is for."""
        return StoreConnection(
            signer,
            ca_certificates=self.ca_certificates,
            limits=self.limits,
            gate=self.gate,
            egress=self.egress,
            denied_advice=denied_advice,
        )

    def route(self, server: str) -> EgressRoute | None:
        """The way that requests to a server take, where they do not go directly. Raises
        ConfigError."""
        certificate = self.client_certificate
        if certificate is None:
            return None if self.egress is None else self.egress.to(server)
        with self._starting_relay:
            if self._relay is None:
                relay = _relay(lambda: certificate, self.ca_certificates, self.egress)
                weakref.finalize(self, relay.close)
                self._relay = relay
            return self._relay.to(server)


def handed_over(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """A client's settings for credentials as they are: always as a provider, since the client
    would mix settings of the environment with those that it is given."""
    handed = {**given, "expires_at": None}
    return {"credential_provider": lambda: handed}


def trusted_authorities(endpoint: Endpoint, using: StoreConnection | None) -> bytes | None:
    """Those of the connection, else of the endpoint. Raises ConfigError for an unreadable file."""
    given = None if using is None else using.ca_certificates
    return authorities_of(endpoint.ca_bundle) if given is None else given


def route_to(endpoint: Endpoint, url: str, using: StoreConnection | None) -> EgressRoute | None:
    """The way that requests to a URL of an endpoint take, where they do not go directly: through
    the proxy that shows a certificate, or that checks addresses. Raises ConfigError."""
    if using is not None:
        return using.route(url)
    if endpoint.client_files is None:
        return None
    return _relay_of_files(endpoint.client_files, authorities_of(endpoint.ca_bundle)).to(url)


def connect_problem(endpoint: Endpoint, bucket: str, using: StoreConnection | None) -> str | None:
    """Why the last connection to a bucket's server was not made, where that is known."""
    route = route_to(endpoint, endpoint.server(bucket), using)
    return None if route is None else route.problem()


@cache
def _relay_of_files(files: ClientFiles, authorities: bytes | None) -> CertificateRelay:
    """One for the life of the process. Raises ConfigError."""
    return _relay(WatchedFiles(files), authorities, None)


def _relay(
    certificate: Callable[[], ClientCertificate], authorities: bytes | None, egress: Egress | None
) -> CertificateRelay:
    # It loads asyncio, which few need.
    from tideline.storage.egress.certificate_relay import CertificateRelay

    return CertificateRelay(certificate, authorities, egress).start()


def settings_at(
    endpoint: Endpoint,
    url: str,
    limits: RequestLimits,
    *,
    data: bool,
    using: StoreConnection | None,
) -> dict[str, Any]:
    """A client's settings but for credentials, for requests to a URL of an endpoint. Raises
    ConfigError."""
    route = route_to(endpoint, url, using)
    return client_settings(
        limits,
        data=data,
        allow_http=endpoint.allow_http or shows_certificate(endpoint, using),
        authorities=trusted_authorities(endpoint, using),
        proxy_url=None if route is None else route.proxy_url,
    )


def shows_certificate(endpoint: Endpoint, using: StoreConnection | None) -> bool:
    """Whether requests leave in plain HTTP, for a proxy of this process that shows a certificate to
    the server."""
    if using is None:
        return endpoint.client_files is not None
    return using.client_certificate is not None
