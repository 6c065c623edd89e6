"""How one call reaches what a table names: credentials, and whom its requests ask.

`Access` is what a call in this process uses. `HandedAccess` is the part of it that is a value, for
a process of its own: keys, certificates, time limits. What is no value stays behind the connection
(child.py): the gates of endpoints, the leader's right to write, tokens of a service account.

`ConnectionPool.connection` is the one place where a reading process makes a StoreConnection.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tideline.errors import ConfigError, StorageUnavailableError, TidelineError
from tideline.ingest.location import Location
from tideline.ingest.sources.source import Declared, Reach
from tideline.storage.azure.keys import AzureKeys
from tideline.storage.egress.client_certificate import ClientCertificate
from tideline.storage.egress.client_files import CERTIFICATE, KEY
from tideline.storage.egress.route import Egress
from tideline.storage.gcs.identity import GoogleKey
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.storage.remote.client import RequestLimits
from tideline.storage.remote.connection import (
    Audience,
    Keyless,
    SecretKeys,
    Signer,
    StoreConnection,
    only_at,
)
from tideline.storage.request_gate import RequestGate
from tideline.storage.s3.client import S3Credentials
from tideline.storage.s3.web_identity import WebIdentity
from tideline.trust.author import Author
from tideline.trust.catalog_access import CatalogAccess

_FILES = ("ca_bundle", CERTIFICATE, KEY)
"""Options that name files of pods."""
_CONNECT_S = 3.0
_AMAZONS = re.compile(r"https://s3[.a-z0-9-]*\.amazonaws\.com(\.cn)?(?![.\w:@/-])")


def _may_always() -> None:
    """Where nobody else can be the leader."""


@dataclass(frozen=True, slots=True, repr=False)
class SourceAccess:
    """Credentials for the servers that sources name, as variables, and their gate."""

    variables: Mapping[str, str] = field(default_factory=dict)
    servers: tuple[str, ...] = ()
    gate: RequestGate | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Access:
    """The connection of a table's stores, the properties that open its catalog, and how servers
    that its sources name are reached.

    `catalog_server` names the catalog to its gate. `may_write` raises in a process that must not
    write any more. `egress` is the way to the catalog, and to those servers.
    """

    connection: StoreConnection | None = None
    catalog: Mapping[str, str] = field(default_factory=dict)
    catalog_gate: RequestGate | None = None
    catalog_server: str = ""
    catalog_timeout_s: float | None = None
    may_write: Callable[[], None] = _may_always
    allows_local: bool = False
    egress: Egress | None = None
    sources: SourceAccess = field(default_factory=SourceAccess)

    @property
    def catalog_access(self) -> CatalogAccess:
        """How the catalog is opened: with nothing of this process's own."""
        egress, purpose = self.egress, self.catalog_server
        own = CatalogAccess(
            Author.RESOURCE, allows_local=self.allows_local, aws_signer=self._aws_signer
        )
        if egress is None:
            return own
        return replace(
            own,
            proxy_for=lambda _: egress.anywhere(purpose).proxy_url,
            address_of=egress.checked_address,
            connect=egress.connect,
        )

    @property
    def _aws_signer(self) -> Signer | None:
        """The LakeStore's credentials, where they are for Amazon's S3: the same account has its
        Glue catalog. Never an identity of this process."""
        connection = self.connection
        if connection is None or connection.scheme != "s3":
            return None
        audience, credentials = connection.audience, connection.credentials
        is_amazons = audience is not None and all(map(_is_amazons, audience.services))
        if not is_amazons or isinstance(credentials, Keyless):
            return None
        if isinstance(credentials, S3Credentials):
            return lambda: {
                "access_key_id": credentials.access_key_id,
                "secret_access_key": credentials.secret_access_key,
                "token": credentials.session_token,
            }
        return credentials if callable(credentials) else None

    def open_store(self, place: Location) -> ObjectStore:
        """A place that a table names. Raises ConfigError for a folder of this machine: what a
        catalog answers leads here, too."""
        options = {name: text for name, text in place.options if name not in _FILES}
        location = StoreLocation.of(place.uri, options)
        if location.kind.is_remote:
            if self.connection is None:
                raise ConfigError("the table names no place in a store", path=location.uri)
            return location.open(self.connection)
        if not self.allows_local:
            message = "the operator reads no folders of its own machine: use an object store"
            raise ConfigError(message, path=location.uri)
        return location.open()

    @contextmanager
    def reaching(self, source: Declared, *, has_credentials: bool) -> Iterator[Reach]:
        """How a source is looked at: with nothing of this process's own. Raises
        StorageUnavailableError where its server is left alone."""
        gate, server = self.sources.gate, source.server
        variables = self.sources.variables if has_credentials else {}
        reach = Reach(self.open_store, variables, connect=self._connect)
        if gate is None or server is None:
            yield reach
            return
        reason = gate.refusal(server, writes=False)
        if reason is not None:
            raise StorageUnavailableError(reason)
        try:
            yield reach
        except TidelineError as error:
            is_unanswered = isinstance(error, StorageUnavailableError)
            gate.note(server, str(error) if is_unanswered else None)
            raise
        gate.note(server, None)

    def _connect(self, host: str, port: int) -> socket.socket:
        if self.egress is not None:
            return self.egress.connect(host, port)
        try:
            return socket.create_connection((host, port), _CONNECT_S)
        except (OSError, UnicodeError, OverflowError) as error:
            raise StorageUnavailableError(f"cannot connect: {type(error).__name__}") from error

    @contextmanager
    def asking_catalog(self) -> Iterator[None]:
        """A request to the catalog, unless it is left alone. Raises StorageUnavailableError."""
        gate, server = self.catalog_gate, self.catalog_server
        if gate is None:
            yield
            return
        reason = gate.refusal(server, writes=False)
        if reason is not None:
            raise StorageUnavailableError(reason)
        try:
            yield
        except TidelineError as error:
            problem = None if self.egress is None else self.egress.anywhere(server).problem()
            if problem is not None:
                gate.note(server, problem)
                raise StorageUnavailableError(problem) from error
            is_unanswered = isinstance(error.__cause__, OSError)
            gate.note(server, str(error) if is_unanswered else None)
            raise
        gate.note(server, None)


def _is_amazons(service: str) -> bool:
    return _AMAZONS.match(service) is not None


@dataclass(frozen=True, slots=True, repr=False)
class StoreKeys:
    """What a connection is made of: keys of its kind of store, or a role at an STS whose tokens are
    asked for, or an identity that needs no key; how it leaves the pod, and what it is meant for."""

    scheme: str
    keys: S3Credentials | GoogleKey | AzureKeys | Keyless | None = None
    sts_url: str | None = None
    role_arn: str | None = None
    authorities: str | None = None
    client: ClientCertificate | None = None
    audience: Audience | None = None
    egress: Egress | None = None
    denied_advice: str | None = None
    limits: RequestLimits = field(default_factory=RequestLimits)

    @classmethod
    def of(cls, connection: StoreConnection) -> StoreKeys:
        """Those of a connection."""
        certificates = connection.ca_certificates
        others = cls(
            connection.scheme,
            authorities=None if certificates is None else certificates.decode(),
            client=connection.client_certificate,
            audience=connection.audience,
            egress=connection.egress,
            denied_advice=connection.denied_advice,
            limits=connection.limits,
        )
        match connection.credentials:
            case (S3Credentials() | GoogleKey() | AzureKeys() | Keyless()) as keys:
                return replace(others, keys=keys)
            case WebIdentity() as identity:
                return replace(others, sts_url=identity.sts_url, role_arn=identity.role_arn)
        raise TypeError("credentials that a catalog vends are not handed over")

    def credentials(self, read_token: Callable[[], str]) -> SecretKeys | Keyless | WebIdentity:
        """The credentials of the connection; `read_token` gives the service account's token."""
        if self.keys is not None:
            return self.keys
        authorities = None if self.authorities is None else self.authorities.encode()
        return WebIdentity(
            self.sts_url or "",
            self.role_arn or "",
            read_token,
            authorities=authorities,
            egress=self.egress,
            client=only_at(self.client, self.audience),
        )


@dataclass(frozen=True, slots=True, repr=False)
class HandedAccess:
    """An `Access` as a value."""

    store: StoreKeys | None = None
    catalog: Mapping[str, str] = field(default_factory=dict)
    catalog_server: str | None = None
    catalog_timeout_s: float | None = None
    allows_local: bool = False
    egress: Egress | None = None
    source_variables: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, access: Access) -> HandedAccess:
        """The part of `access` that is handed over."""
        return cls(
            None if access.connection is None else StoreKeys.of(access.connection),
            dict(access.catalog),
            None if access.catalog_gate is None else access.catalog_server,
            access.catalog_timeout_s,
            access.allows_local,
            access.egress,
            dict(access.sources.variables),
        )


class CallGate:
    """The gate of a pooled connection: that of the call that has the connection now."""

    def __init__(self) -> None:
        self.of_call: RequestGate | None = None
        self.read_token: Callable[[], str] | None = None

    def refusal(self, server: str, *, writes: bool) -> str | None:
        """Refuses what a call has left behind when it ended."""
        gate = self.of_call
        return "the call has ended" if gate is None else gate.refusal(server, writes=writes)

    def note(self, server: str, problem: str | None) -> None:
        if (gate := self.of_call) is not None:
            gate.note(server, problem)

    def token(self) -> str:
        """The token of the service account that reads for this call."""
        if self.read_token is None:
            raise OSError("the call has ended")
        return self.read_token()


class ConnectionPool:
    """Connections by their keys, each with one call at a time: a call asks its own gate, whichever
    of its threads makes a request. Kept for their open clients, the newest keys only."""

    def __init__(self, keys_max: int = 32) -> None:
        self._keys_max = keys_max
        self._lock = threading.Lock()
        self._idle: dict[StoreKeys, list[tuple[StoreConnection, CallGate]]] = {}

    @contextmanager
    def connection(
        self, keys: StoreKeys, of_call: RequestGate, read_token: Callable[[], str]
    ) -> Iterator[StoreConnection]:
        """A connection of these keys, for the time of one call."""
        with self._lock:
            idle = self._idle.get(keys) or []
            connection, gate = idle.pop() if idle else _connect(keys)
        gate.of_call, gate.read_token = of_call, read_token
        try:
            yield connection
        finally:
            gate.of_call = gate.read_token = None
            with self._lock:
                idle = self._idle.pop(keys, [])
                self._idle[keys] = [*idle, (connection, gate)]
                while len(self._idle) > self._keys_max:
                    del self._idle[next(iter(self._idle))]


def _connect(keys: StoreKeys) -> tuple[StoreConnection, CallGate]:
    gate = CallGate()
    connection = StoreConnection(
        keys.credentials(gate.token),
        scheme=keys.scheme,
        audience=keys.audience,
        ca_certificates=None if keys.authorities is None else keys.authorities.encode(),
        limits=keys.limits,
        gate=gate,
        egress=keys.egress,
        denied_advice=keys.denied_advice,
        client_certificate=keys.client,
    )
    return connection, gate
