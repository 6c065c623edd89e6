"""Connections of LakeStores: their Secrets, read by name and cached for a short time.

The operator has no identity of its own at stores. A LakeStore without credentials is read as
anybody may read it, except those on S3 in namespaces for which the chart opens the operator's own
identity. Credentials are used at the endpoints, regions and accounts of the LakeStores that name
them, and requests go by way of the egress proxy, which checks the addresses of endpoints.

The operator may get Secrets but not watch them, so it keeps what it read for `FRESH_S`. A Secret
that did not change keeps its connection, and with it the open clients. One that was deleted, or
cannot be read, is a `SecretProblemError`.

With a web identity the operator reads as the pods of the namespace do: it asks the API server for a
token of their service account whenever credentials are fetched.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tideline.clock import Clock
from tideline.storage.azure.store import AzureEndpoint
from tideline.storage.egress.proxy import EgressProxy
from tideline.storage.gcs.store import GcsEndpoint
from tideline.storage.remote.client import Endpoint, RequestLimits
from tideline.storage.remote.connection import (
    Audience,
    Keyless,
    SecretKeys,
    StoreConnection,
    only_at,
)
from tideline.storage.remote.identity import IdentityError
from tideline.storage.s3.client import S3Endpoint
from tideline.storage.s3.kind import S3
from tideline.storage.s3.web_identity import WebIdentity
from tideline_operator.api_objects import (
    SECRETS,
    ApiRefusedError,
    ApiUnavailableError,
    Manifest,
)
from tideline_operator.controller.endpoints import EndpointGate, Endpoints, access_of
from tideline_operator.controller.store_secrets import (
    CLIENT_FIELD,
    SecretProblemError,
    secret_value,
    shown_certificate,
    store_credentials,
)
from tideline_operator.kube import KubeApi
from tideline_operator.resources.lake_store import LakeStoreSpec, StoreWebIdentity
from tideline_operator.resources.resolving import store_options

FRESH_S = 20.0
CONNECTIONS_PER_NAMESPACE_MAX = 256
CA_KEY = "ca.crt"
TOKEN_S = 3_600
LIMITS = RequestLimits(
    connect_timeout_s=3.0,
    read_timeout_s=5.0,
    data_read_timeout_s=5.0,
    retries_max=3,
    retry_timeout_s=3.0,
    total_timeout_s=60.0,
    metadata_timeout_s=60.0,
)
"""Deadlines of the controller's requests. A turn is repeated anyway, so a request that hangs is
not; one that fails at once is, for a moment."""

_ANONYMOUS_ADVICE = (
    "the operator has no identity for this store: name credentials or webIdentity in the "
    "LakeStore, or add the namespace to ambientIdentity.namespaces of the chart"
)
_NO_SECRET_ADVICE = "the operator has no identity for this store: name credentials in the LakeStore"

STORE_WRITE_S = LIMITS.connect_timeout_s + LIMITS.read_timeout_s + LIMITS.retry_timeout_s
"""The longest that a small request takes, with its retries."""


@dataclass(frozen=True, slots=True)
class _Names:
    """What makes a connection: Secrets, or an identity at the STS of a region, for services."""

    namespace: str
    scheme: str
    credentials: str | None
    authorities: str | None
    client: str | None
    identity: StoreWebIdentity | None
    region: str
    audience: Audience


@dataclass(slots=True)
class _Known:
    """A connection, the versions of its Secrets, and when they were last looked at."""

    connection: StoreConnection | None
    versions: tuple[str, ...]
    problem: SecretProblemError | None
    read_s: float


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """What the operator's own configuration says about requests to stores: the way they leave the
    process, None for directly, and the namespaces for which its own identity may be used."""

    egress: EgressProxy | None
    ambient_namespaces: frozenset[str] = frozenset()


class Connections:
    """Connections by the Secrets they are made of. For any number of threads."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        service_account: str,
        endpoints: Endpoints,
        before_write: Callable[[], None],
        access: StoreAccess,
    ) -> None:
        """`before_write` is called before every request to a store that writes or deletes."""
        self._api = api
        self._clock = clock
        self._account = service_account
        self._endpoints = endpoints
        self._before_write = before_write
        self._access = access
        self._lock = threading.Lock()
        self._known: dict[_Names, _Known] = {}

    def connect(
        self, namespace: str, stores: Iterable[LakeStoreSpec], *, may_be_old: bool = False
    ) -> StoreConnection:
        """The connection that the stores of one table share.

        `may_be_old` uses the last known one when its Secret was deleted. Raises SecretProblemError,
        and ApiUnavailableError when a Secret cannot be read now and never could.
        """
        stores = tuple(stores)
        names = self._names(namespace, stores)
        with self._lock:
            known = self._known.get(names)
        if known is None or self._clock.monotonic_s() - known.read_s > FRESH_S:
            known = self._read(names, known, access_of(next(iter(stores), None)))
        if known.problem is not None and not (may_be_old and known.connection is not None):
            raise known.problem
        assert known.connection is not None
        return known.connection

    def versions(self, namespace: str, stores: Iterable[LakeStoreSpec]) -> tuple[str, ...]:
        """The versions of the Secrets that the connection was made of; none before that."""
        with self._lock:
            known = self._known.get(self._names(namespace, tuple(stores)))
        return () if known is None else known.versions

    def _names(self, namespace: str, stores: tuple[LakeStoreSpec, ...]) -> _Names:
        credentials = {
            None if store.credentials is None else store.credentials.secret_name for store in stores
        }
        authorities = {None if store.tls is None else store.tls.ca_secret_name for store in stores}
        clients = {
            None if store.client_certificate is None else store.client_certificate.secret_name
            for store in stores
        }
        identities = {store.web_identity for store in stores}
        schemes = {store.scheme for store in stores or (LakeStoreSpec(),)}
        if len(schemes) > 1:
            message = "the LakeStores of a table and its ingests must be of one kind of store"
            raise SecretProblemError("StoresDiffer", message)
        if max(len(credentials), len(authorities), len(clients), len(identities)) > 1:
            raise SecretProblemError(
                "StoresDiffer",
                "the LakeStores of a table and its ingests must name the same Secrets in "
                "spec.credentials, spec.tls and spec.clientCertificate, and have the same "
                "spec.webIdentity",
            )
        return _Names(
            namespace,
            next(iter(schemes)),
            next(iter(credentials), None),
            next(iter(authorities), None),
            next(iter(clients), None),
            next(iter(identities), None),
            stores[0].region if stores else "",
            Audience.of(map(_endpoint, stores or (LakeStoreSpec(),))),
        )

    def _read(self, names: _Names, before: _Known | None, access: str) -> _Known:
        now_s = self._clock.monotonic_s()
        connection = None if before is None else before.connection
        versions = () if before is None else before.versions
        problem = None
        try:
            secrets = self._secrets(names)
            found = tuple(str(item["metadata"].get("resourceVersion")) for item in secrets.values())
            if names.credentials is not None:
                # Noted again: what was noted least recently is forgotten.
                store_credentials(secrets[names.credentials], names.scheme)
            if connection is None or found != versions:
                connection, versions = self._connection(names, secrets, access), found
        except SecretProblemError as error:
            problem = error
        known = _Known(connection, versions, problem, now_s)
        with self._lock:
            if names not in self._known:
                self._make_room(names.namespace)
            self._known[names] = known
        return known

    def _make_room(self, namespace: str) -> None:
        """Forget what a namespace has not used for longest: each change of a LakeStore is another
        connection."""
        own = [names for names in self._known if names.namespace == namespace]
        own.sort(key=lambda names: self._known[names].read_s)
        for names in own[: max(0, len(own) - CONNECTIONS_PER_NAMESPACE_MAX + 1)]:
            del self._known[names]

    def _secrets(self, names: _Names) -> dict[str, Manifest]:
        found: dict[str, Manifest] = {}
        wanted = (("spec.credentials.secretName", names.credentials),
                  ("spec.tls.caSecretName", names.authorities),
                  (CLIENT_FIELD, names.client))  # fmt: skip
        for field, name in wanted:
            if name is None or name in found:
                continue
            try:
                secret = self._api.get(SECRETS, name, names.namespace)
            except ApiRefusedError as error:
                raise SecretProblemError(
                    "SecretRefused", f"LakeStore: {field}: {error.message}"
                ) from error
            if secret is None:
                raise SecretProblemError(
                    "SecretMissing",
                    f"LakeStore: {field}: there is no Secret {name!r} in namespace "
                    f"{names.namespace}: create it",
                )
            found[name] = secret
        return found

    def _connection(
        self, names: _Names, secrets: dict[str, Manifest], access: str
    ) -> StoreConnection:
        namespace = names.namespace
        # Tokens of Google and Azure could be used by the server that a tenant names.
        is_ambient = names.scheme == S3.scheme and namespace in self._access.ambient_namespaces
        credentials: SecretKeys | WebIdentity | Keyless
        credentials = Keyless.AMBIENT if is_ambient else Keyless.ANONYMOUS
        proxy = self._access.egress
        egress = None if proxy is None else proxy.of(namespace)
        authorities = None
        if names.credentials is not None:
            credentials = store_credentials(secrets[names.credentials], names.scheme)
        if names.authorities is not None:
            authorities = secret_value(secrets[names.authorities], CA_KEY, "spec.tls.caSecretName")
        client = None
        if names.client is not None:
            client = shown_certificate(secrets[names.client])
        identity = names.identity
        if identity is not None:
            credentials = WebIdentity(
                (identity.sts_endpoint or f"https://sts.{names.region}.amazonaws.com").rstrip("/"),
                identity.role_arn,
                lambda: self._token(namespace, identity.audience),
                authorities=authorities,
                egress=egress,
                client=only_at(client, names.audience),
            )
        advice = _ANONYMOUS_ADVICE if names.scheme == S3.scheme else _NO_SECRET_ADVICE
        return StoreConnection(
            credentials,
            scheme=names.scheme,
            audience=names.audience,
            ca_certificates=authorities,
            limits=LIMITS,
            gate=EndpointGate(self._endpoints, namespace, access, self._before_write),
            egress=egress,
            denied_advice=advice if credentials is Keyless.ANONYMOUS else None,
            client_certificate=client,
        )

    def _token(self, namespace: str, audience: str) -> str:
        try:
            return self._api.request_token(self._account, namespace, audience, TOKEN_S)
        except (ApiRefusedError, ApiUnavailableError) as error:
            raise IdentityError(
                f"the API server gives no token of ServiceAccount {self._account} in namespace "
                f"{namespace}: {error.message}"
            ) from None


def _endpoint(store: LakeStoreSpec) -> Endpoint:
    options = store_options(store, ca_bundle=None)
    if store.gcs is not None:
        return GcsEndpoint(options.get("gcs_endpoint"))
    if store.azure is not None:
        return AzureEndpoint(store.azure.account or "", url=options.get("azure_endpoint"))
    return S3Endpoint(options.get("endpoint"), store.region)
