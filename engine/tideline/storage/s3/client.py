"""Opening an obstore client: endpoint, time limits and credentials.

Credentials come from the environment, unless a process that serves the stores of others hands over
an `S3Connection`. It says whose identity signs requests, for which services it is meant, and how
requests leave the process.
"""

from __future__ import annotations

import ipaddress
import os
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias, cast

import obstore.store
from obstore.exceptions import BaseError

from tideline.errors import ConfigError
from tideline.secret_values import note_secrets
from tideline.storage.egress.route import Egress
from tideline.storage.remote.client import RequestLimits, authorities_of, client_settings
from tideline.storage.request_gate import RequestGate
from tideline.storage.s3.identity import S3Identity, implicit_identity
from tideline.storage.s3.web_identity import WebIdentity

_HOST_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class S3Endpoint:
    """Where the bucket is served; `url` None means Amazon's own endpoint of the region."""

    url: str | None = None
    region: str = "us-east-1"
    path_style: bool = True
    allow_http: bool = False
    ca_bundle: str | None = None

    @property
    def service_url(self) -> str:
        """The URL of the service, without the bucket."""
        return self.url or f"https://s3.{self.region}.amazonaws.com"

    def server(self, bucket: str) -> str:
        """The URL that requests for `bucket` go to. Raises ConfigError for a bucket that would name
        another server, since tables and catalogs name buckets, and for a host name that cannot be.
        """
        if self.path_style:
            return self.service_url
        if not _HOST_PART.fullmatch(bucket):
            raise ConfigError("the bucket cannot be a part of a host name", value=bucket)
        scheme, _, host = self.service_url.partition("://")
        if _is_number(host):
            raise ConfigError(
                "an endpoint that is an IP address has no host names of buckets: set path_style "
                "(pathStyle of a LakeStore) to true",
                value=self.service_url,
            )
        return f"{scheme}://{bucket}.{host}"


def _is_number(host: str) -> bool:
    """Whether a host, with a port or without, is an IP address."""
    if host.startswith("["):
        return True
    try:
        ipaddress.ip_address(host.rstrip("/").partition(":")[0])
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True, repr=False)
class S3Credentials:
    """A key pair, with a token where it is temporary. Never shown, never pickled."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None

    def __repr__(self) -> str:
        return "S3Credentials(...)"

    def __reduce__(self) -> str:
        raise TypeError("credentials are not pickled")


Signer: TypeAlias = Callable[[], dict[str, Any]]
"""Gives current credentials, with their end, when a request is to be signed."""


class Keyless(Enum):
    """Identities that need nothing but their name."""

    AMBIENT = "the identity that this process finds in its environment"
    ANONYMOUS = "nobody: requests are not signed"


@dataclass(frozen=True, slots=True)
class Audience:
    """The services, by URL and region, that credentials are meant for."""

    services: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, endpoints: Iterable[S3Endpoint]) -> Audience:
        return cls(frozenset((endpoint.service_url, endpoint.region) for endpoint in endpoints))

    def check(self, endpoint: S3Endpoint) -> None:
        """Raises ConfigError for an endpoint of another service."""
        if (endpoint.service_url, endpoint.region) not in self.services:
            meant = ", ".join(sorted(f"{url} ({region})" for url, region in self.services))
            raise ConfigError(
                f"the credentials are for {meant}: they are not used at another endpoint or region",
                value=f"{endpoint.service_url} ({endpoint.region})",
            )


class S3Connection:
    """An identity and authorities of one's own, and the clients opened with them.

    Stores opened with the same connection share their clients. `audience` are the services that
    the identity is meant for; without it, all. `egress` gives the way to a server, `gate` is asked
    before each request, `limits` hold for stores that have none of their own. `denied_advice` says
    what to do when access is denied. Not pickled: a worker gets its credentials from its own
    environment.
    """

    def __init__(
        self,
        credentials: S3Credentials | WebIdentity | Keyless | Signer,
        *,
        audience: Audience | None = None,
        ca_certificates: bytes | None = None,
        limits: RequestLimits | None = None,
        gate: RequestGate | None = None,
        egress: Egress | None = None,
        denied_advice: str | None = None,
    ) -> None:
        self.credentials = credentials
        self.audience = audience
        self.ca_certificates = ca_certificates
        self.limits = limits or RequestLimits()
        self.gate = gate
        self.egress = egress
        self.denied_advice = denied_advice
        self._clients: dict[tuple[str, S3Endpoint, RequestLimits, bool], Any] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> str:
        raise TypeError("a connection is not pickled")

    def client(
        self, bucket: str, endpoint: S3Endpoint, limits: RequestLimits, *, data: bool
    ) -> Any:
        """The client for a bucket, opened when it is first asked for. Raises ConfigError for an
        endpoint that the credentials are not meant for."""
        if self.audience is not None:
            self.audience.check(endpoint)
        key = (bucket, endpoint, limits, data)
        with self._lock:
            if key not in self._clients:
                self._clients[key] = open_client(bucket, endpoint, limits, data=data, using=self)
            return self._clients[key]

    def signed_by(self, signer: Signer, denied_advice: str) -> S3Connection:
        """The same way out of the process, with an identity that is meant for any endpoint."""
        return S3Connection(
            signer,
            ca_certificates=self.ca_certificates,
            limits=self.limits,
            gate=self.gate,
            egress=self.egress,
            denied_advice=denied_advice,
        )

    def connect_problem(self, server: str) -> str | None:
        """Why the last connection to a server was not made, where egress says so."""
        return None if self.egress is None else self.egress.to(server).problem()


def open_client(
    bucket: str,
    endpoint: S3Endpoint,
    limits: RequestLimits,
    *,
    data: bool,
    using: S3Connection | None = None,
) -> Any:
    """An obstore client, with generous time limits when it is for `data`.

    Raises ConfigError when there are no credentials or `ca_bundle` cannot be read.
    """
    given = None if using is None else using.ca_certificates
    authorities = authorities_of(endpoint.ca_bundle) if given is None else given
    url = endpoint.server(bucket)
    if using is None:
        credentials = implicit_identity().client_settings(endpoint.region, authorities)
    else:
        credentials = _given(using, endpoint.region, authorities)
    proxy_url = None
    if using is not None and using.egress is not None:
        proxy_url = using.egress.to(url).proxy_url
    settings = client_settings(
        limits,
        data=data,
        allow_http=endpoint.allow_http,
        authorities=authorities,
        proxy_url=proxy_url,
    )
    try:
        # Both endpoint settings: either of them, left out, would be read from the environment.
        return obstore.store.S3Store(
            bucket,
            endpoint=url,
            aws_endpoint_url_s3=url,
            region=endpoint.region,
            virtual_hosted_style_request=not endpoint.path_style,
            conditional_put="etag",
            **cast(Any, credentials),
            **cast(Any, settings),
        )
    except (BaseError, ValueError) as error:
        raise ConfigError(f"cannot set up S3 access: {type(error).__name__}", value=url) from None


def _given(using: S3Connection, region: str, authorities: bytes | None) -> dict[str, Any]:
    """A client's settings. Keys always as a provider: a token in the environment would be taken for
    that of these keys."""
    credentials = using.credentials
    if callable(credentials):
        return {"credential_provider": credentials}
    if credentials is Keyless.ANONYMOUS:
        return {"skip_signature": True}
    if credentials is Keyless.AMBIENT:
        # The client would fetch credentials by way of the egress proxy.
        itself = using.egress is None
        identity = S3Identity.of(os.environ)
        return identity.client_settings(region, authorities, fetches_itself=itself)
    assert isinstance(credentials, S3Credentials)
    note_secrets([credentials.secret_access_key, credentials.session_token])
    handed = {
        "access_key_id": credentials.access_key_id,
        "secret_access_key": credentials.secret_access_key,
        "token": credentials.session_token,
        "expires_at": None,
    }
    return {"credential_provider": lambda: handed}
