"""Clients of brokers: what they are made with, what they complain of, and which of them are kept.

1. Why brokers cannot be reached comes by a callback, not with the failure: it is kept and said.
2. To connect and to sign in costs more than to read some records. A client whose use went well is
   kept for a while, for the next use of the same settings, credentials included, one at a time.
3. A forked process has none of its parent's clients: their threads are not in it.
"""

from __future__ import annotations

import atexit
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from tideline.distribution import installation
from tideline.errors import ConfigError, StorageUnavailableError
from tideline.ingest.sources.kafka.credentials import Credentials
from tideline.ingest.sources.kafka.declared import DeclaredKafka, Mechanism
from tideline.secret_values import masked

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError
    from confluent_kafka.admin import AdminClient

KEPT_S = 60.0
"""How long a client is kept that nobody uses."""
FETCH_WAIT_MS = 10
GROUP = "tideline"
"""The client insists on one; nothing is committed for it."""
_REFUSING_ALERT = re.compile(r"alert .*(certificate|unknown ca|handshake failure)")
"""What brokers answer to a certificate, which the client takes for a lost connection."""


@dataclass(slots=True)
class Complaints:
    """What the callback of a client with these credentials said last."""

    credentials: Credentials
    newest: str = ""
    is_refusal: bool = False

    def note(self, error: KafkaError) -> None:
        # That every broker is down follows from what was said before.
        if error.code() != error._ALL_BROKERS_DOWN or not self.newest:
            self.newest, self.is_refusal = error.str(), _is_refusal(error)

    def raise_for(self, source: DeclaredKafka, what: str, error: KafkaError | None) -> NoReturn:
        """Raises ConfigError for what a user has to correct, else StorageUnavailableError. The
        callback says more than the `error` that follows, unless that is a refusal."""
        if error is not None and (_is_refusal(error) or not self.newest):
            self.newest, self.is_refusal = error.str(), _is_refusal(error)
        words = masked(self.newest)
        if self.is_refusal:
            raise ConfigError(f"the brokers refuse this client: {words}", path=source.uri)
        raise StorageUnavailableError(f"{what}: {words}", path=source.uri)


@contextmanager
def complaints_of(
    source: DeclaredKafka, credentials: Credentials, what: str
) -> Iterator[Complaints]:
    """Those of the client while it is used; `what` does not work where it fails."""
    try:
        from confluent_kafka import KafkaException
    except ModuleNotFoundError as error:
        raise ConfigError(f"topics need the client of Kafka: {installation('kafka')}") from error
    complaints = Complaints(credentials)
    try:
        yield complaints
    except KafkaException as error:
        complaints.raise_for(source, what, error.args[0])


@contextmanager
def admin_of(source: DeclaredKafka, complaints: Complaints) -> Iterator[AdminClient]:
    """Its answers fail when it is dropped: it is kept until they are here."""
    from confluent_kafka.admin import AdminClient

    with _KEPT.used(AdminClient, client_settings(source, complaints), complaints) as admin:
        try:
            yield admin
        finally:
            # Complaints come when they are asked for.
            admin.poll(0)


@contextmanager
def consumer_of(
    source: DeclaredKafka, complaints: Complaints, settings: Mapping[str, int] | None = None
) -> Iterator[Consumer]:
    """One without partitions."""
    from confluent_kafka import Consumer

    chosen = {
        **client_settings(source, complaints),
        **(settings or {}),
        "group.id": GROUP,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # What is read is there already; and a request that waits at a broker, for what may come
        # behind a range, would hold up the next range of a kept client.
        "fetch.wait.max.ms": FETCH_WAIT_MS,
        # The other values pass records over without a word.
        "auto.offset.reset": "error",
        # Without it a value whose bytes have changed on a disk is handed out as any other.
        "check.crcs": True,
        "enable.partition.eof": True,
        "isolation.level": source.isolation.value,
    }
    with _KEPT.used(Consumer, chosen, complaints) as consumer:
        yield consumer
        consumer.unassign()


def client_settings(source: DeclaredKafka, complaints: Complaints) -> dict[str, Any]:
    """What any client of these brokers is made with."""
    settings: dict[str, Any] = {
        "bootstrap.servers": source.brokers,
        "client.id": "tideline",
        "security.protocol": source.protocol.value,
        "allow.auto.create.topics": False,
        # What matters comes as errors.
        "log_level": 0,
    }
    given = complaints.credentials
    if source.protocol.signs_in:
        settings |= _sign_in(source, given)
    for setting, text in (
        ("ssl.ca.location", given.authorities_file),
        ("ssl.ca.pem", given.authorities),
        ("ssl.certificate.pem", given.certificate),
        ("ssl.key.pem", given.key),
    ):
        if text:
            settings[setting] = text
    return settings


@dataclass(slots=True)
class _Client:
    """A client, to whom it complains, and since when nobody uses it."""

    inner: Any
    hearer: _Hearer
    idle_s: float = 0.0

    def close(self) -> None:
        # An AdminClient ends when it is dropped.
        if hasattr(self.inner, "close"):
            self.inner.close()


@dataclass(slots=True)
class _Hearer:
    """The callback of a client, which outlives its uses."""

    complaints: Complaints | None = None

    def note(self, error: KafkaError) -> None:
        if self.complaints is not None:
            self.complaints.note(error)


_Key = tuple[Callable[..., Any], frozenset[tuple[str, Any]]]


@dataclass
class KeptClients:
    """Clients that nobody uses now. For any threads."""

    kept_s: float = KEPT_S
    _changing: threading.Lock = field(default_factory=threading.Lock)
    _idle: dict[_Key, list[_Client]] = field(default_factory=dict)
    _of_parents: list[dict[_Key, list[_Client]]] = field(default_factory=list)
    _is_closing: bool = False

    @contextmanager
    def used(
        self, make: Callable[..., Any], settings: Mapping[str, Any], complaints: Complaints
    ) -> Iterator[Any]:
        """A client for this use alone: a kept one, or a new one. After an error it is closed."""
        key = make, frozenset(settings.items())
        client = self._taken(key) or _made(make, settings)
        client.hearer.complaints = complaints
        try:
            yield client.inner
        except BaseException:
            client.close()
            raise
        client.hearer.complaints = None
        self._keep(key, client)

    def close(self, idle_for_s: float = 0.0) -> None:
        """Close those that nobody has used for so long."""
        until_s = time.monotonic() - idle_for_s
        with self._changing:
            over = [client for kept in self._idle.values() for client in kept]
            over = [client for client in over if client.idle_s <= until_s]
            left = {
                key: [client for client in kept if client.idle_s > until_s]
                for key, kept in self._idle.items()
            }
            self._idle = {key: kept for key, kept in left.items() if kept}
        for client in over:
            client.close()

    def forget(self) -> None:
        """Have none, and end none: for a process that was forked."""
        self._changing = threading.Lock()
        self._of_parents.append(self._idle)
        self._idle, self._is_closing = {}, False

    def _taken(self, key: _Key) -> _Client | None:
        with self._changing:
            kept = self._idle.get(key)
            client = kept.pop() if kept else None
        if client is not None:
            # What happened while nobody listened.
            client.inner.poll(0)
        return client

    def _keep(self, key: _Key, client: _Client) -> None:
        client.idle_s = time.monotonic()
        with self._changing:
            self._idle.setdefault(key, []).append(client)
            if self._is_closing:
                return
            self._is_closing = True
        self._close_later()

    def _close_later(self) -> None:
        timer = threading.Timer(self.kept_s, self._close_old)
        timer.daemon = True
        timer.start()

    def _close_old(self) -> None:
        self.close(self.kept_s)
        with self._changing:
            self._is_closing = bool(self._idle)
        if self._is_closing:
            self._close_later()


def _made(make: Callable[..., Any], settings: Mapping[str, Any]) -> _Client:
    hearer = _Hearer()
    return _Client(make({**settings, "error_cb": hearer.note}), hearer)


def _is_refusal(error: KafkaError) -> bool:
    refusals = (
        error._AUTHENTICATION,
        error._SSL,
        error.SASL_AUTHENTICATION_FAILED,
        error.TOPIC_AUTHORIZATION_FAILED,
        error.GROUP_AUTHORIZATION_FAILED,
        error.CLUSTER_AUTHORIZATION_FAILED,
    )
    return error.code() in refusals or bool(_REFUSING_ALERT.search(error.str()))


def _sign_in(source: DeclaredKafka, given: Credentials) -> dict[str, str]:
    """Raises ConfigError naming what is not given."""
    mechanism = source.mechanism
    if mechanism is not Mechanism.OAUTHBEARER:
        given.require_user(source.protocol.value)
        return {
            "sasl.mechanism": mechanism.value,
            "sasl.username": given.username,
            "sasl.password": given.password,
        }
    given.require_client(mechanism.value)
    scope = {"sasl.oauthbearer.scope": given.token_scope} if given.token_scope else {}
    authorities = {"https.ca.pem": given.token_authorities} if given.token_authorities else {}
    return {
        "sasl.mechanism": mechanism.value,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": given.client_id,
        "sasl.oauthbearer.client.secret": given.client_secret,
        "sasl.oauthbearer.token.endpoint.url": given.token_url,
        **scope,
        **authorities,
    }


_KEPT = KeptClients()
atexit.register(_KEPT.close)
os.register_at_fork(after_in_child=_KEPT.forget)
