"""Clients of an egress proxy, and names that resolve as a test says."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import requests

from tideline.storage.egress.proxy import EgressLimits, EgressProxy
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.storage.remote.client import RequestLimits
from tideline.storage.remote.connection import Keyless, StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline.testing.patience import PATIENCE_S
from tideline.trust.addresses import AddressRules

OPENED = "127.0.0.0/8"
HOST = "store.test"
LIMITS = RequestLimits(2.0, 2.0, 2.0, retries_max=1, retry_timeout_s=1.0, total_timeout_s=20.0)
KEYS = S3Credentials("KEY-ID", "the-secret-key", "the-session-token")
PATIENT = EgressLimits(connect_s=PATIENCE_S)
REMEDY = ": egress.allowedRanges opens ranges"


class Names:
    """A resolver with names of its own, which counts what it is asked."""

    def __init__(self, **addresses: str) -> None:
        self.addresses = {name.replace("_", "."): entry for name, entry in addresses.items()}
        self.canonical: dict[str, str] = {}
        self.asked: list[str] = []

    def __call__(self, host: str, _: int) -> tuple[str, tuple[str, ...]]:
        self.asked.append(host)
        if host not in self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return self.canonical.get(host, host), tuple(self.addresses[host].split())


@contextmanager
def running_proxy(addresses: Mapping[str, str]) -> Iterator[EgressProxy]:
    """A proxy to loopback alone, for names with these addresses; other hosts are their own."""

    def known(host: str, _: int) -> tuple[str, tuple[str, ...]]:
        return host, (addresses.get(host, host),)

    running = EgressProxy(AddressRules.of(OPENED), resolve=known, limits=PATIENT).start()
    try:
        yield running
    finally:
        running.close()


class OpenGate:
    """Lets every request to a catalog pass, and keeps what is noted."""

    def __init__(self) -> None:
        self.problems: list[str | None] = []

    def refusal(self, server: str, *, writes: bool) -> str | None:  # noqa: ARG002
        return None

    def note(self, server: str, problem: str | None) -> None:  # noqa: ARG002
        self.problems.append(problem)


def store_at(
    url: str,
    proxy: EgressProxy,
    credentials: S3Credentials | Keyless = KEYS,
    *,
    namespace: str = "lake",
    authorities: bytes | None = None,
) -> ObjectStore:
    connection = StoreConnection(
        credentials, limits=LIMITS, egress=proxy.of(namespace), ca_certificates=authorities
    )
    options = {"endpoint": url, "allow_http": str(url.startswith("http:")).lower()}
    return StoreLocation.of("s3://bucket/table", options).open(connection)


def by_way_of(proxy: EgressProxy, namespace: str = "lake") -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    url = proxy.url_for(namespace)
    session.proxies = {"http": url, "https": url}
    return session


Starting = Callable[..., EgressProxy]


@contextmanager
def started_proxies() -> Iterator[Starting]:
    """A function that starts a proxy with a resolver, ranges and limits; all are closed."""
    running: list[EgressProxy] = []

    def started(
        names: Callable[[str, int], tuple[str, tuple[str, ...]]],
        ranges: str = OPENED,
        limits: EgressLimits = PATIENT,
    ) -> EgressProxy:
        rules = AddressRules.of(ranges)
        running.append(EgressProxy(rules, resolve=names, limits=limits, remedy=REMEDY))
        return running[-1].start()

    yield started
    for proxy in running:
        proxy.close()
