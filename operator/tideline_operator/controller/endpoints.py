"""Endpoints of stores as the controller finds them: a breaker and a share of the turns for each.

1. An endpoint is a server as one namespace reaches it, with its Secrets and its identity. Whatever
   keeps one namespace from it has no effect on another.
2. Requests without an answer, several in a row, open the breaker: for a while requests fail at
   once, with the reason of the last, and no turn waits for them. Then one request is let through;
   without an answer the next while is longer. Any answer closes the breaker.
3. Probes, which wait in threads of their own, are always let through.
4. So many turns may be at one endpoint at the same time: few before it has answered, more
   afterwards. Tables beyond that are woken, in order, when a turn there has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from tideline.clock import Clock
from tideline.storage.location import StoreLocation
from tideline_operator.controller.work_queue import Key
from tideline_operator.resources.lake_store import LakeStoreSpec
from tideline_operator.resources.resolved import ResolvedTable

UNANSWERED_MAX = 2
"""Requests in a row without an answer after which an endpoint is left alone."""
OPEN_FIRST_S = 5.0
OPEN_LAST_S = 60.0
TRIAL_S = 15.0
"""How long the one request that is let through keeps the others back, unless it ends before."""
SHARE = 16
SHARE_UNPROVEN = 2
"""Turns at one endpoint at a time, and before it has answered."""
_FORGOTTEN_S = 120.0
UNUSED_MAX = 256
"""Endpoints of one namespace that are kept though no table names them: a table's catalog does, and
what reads tables may say anything."""

_is_probe: ContextVar[bool] = ContextVar("tideline_operator_is_probe", default=False)


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """A server as one namespace reaches it; `access` names the Secrets and the identity."""

    namespace: str
    server: str
    access: str = ""


@dataclass(slots=True)
class _Known:
    """What is known of one endpoint. `opened` counts the whiles for which it was left alone since
    its last answer; the present one ends at `until_s`."""

    unanswered: int = 0
    problem: str = ""
    opened: int = 0
    until_s: float = 0.0
    is_on_trial: bool = False
    has_answered: bool = False
    users: set[Key] = field(default_factory=set)
    turns: set[Key] = field(default_factory=set)
    line: dict[Key, None] = field(default_factory=dict)

    def answered(self) -> None:
        self.unanswered, self.opened, self.is_on_trial = 0, 0, False
        self.has_answered = True

    def failed(self, problem: str, now_s: float, *, is_probe: bool) -> None:
        self.unanswered += 1
        self.problem = problem
        is_late = self.opened > 0 and not self.is_on_trial and not is_probe
        if self.unanswered < UNANSWERED_MAX or is_late:
            # One that was under way when it was opened says nothing new.
            return
        self.opened += 1
        self.is_on_trial = False
        self.until_s = now_s + min(OPEN_LAST_S, OPEN_FIRST_S * 2.0 ** min(self.opened - 1, 10))

    def free_places(self) -> int:
        # Where requests fail at once, a turn takes no time.
        is_unproven = not self.has_answered and self.opened == 0
        return (SHARE_UNPROVEN if is_unproven else SHARE) - len(self.turns)


class Endpoints:
    """All endpoints that tables use. For any number of threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[Endpoint, _Known] = {}
        self._uses: dict[Key, frozenset[Endpoint]] = {}
        self._asked: dict[int, float] = {}

    def refusal(self, endpoint: Endpoint) -> str | None:
        """Why no request is sent there now; None when one may be."""
        if _is_probe.get():
            return None
        with self._lock:
            known, now_s = self._known.get(endpoint), self._clock.monotonic_s()
            if known is not None and known.opened > 0:
                if now_s < known.until_s:
                    return known.problem
                known.is_on_trial, known.until_s = True, now_s + TRIAL_S
            self._asked[threading.get_ident()] = now_s
            return None

    def note(self, endpoint: Endpoint, problem: str | None) -> None:
        """A request there ended; without an answer when there is a `problem`."""
        with self._lock:
            self._asked.pop(threading.get_ident(), None)
            known = self._known.get(endpoint)
            if known is None:
                self._make_room(endpoint.namespace)
                known = self._known[endpoint] = _Known()
            if problem is None:
                known.answered()
            else:
                now_s = self._clock.monotonic_s()
                known.failed(problem, now_s, is_probe=_is_probe.get())

    def enter(self, key: Key, endpoints: frozenset[Endpoint]) -> bool:
        """Begin a turn of a table at these endpoints. When one has no place, the table is put in
        line there, and the answer is False."""
        with self._lock:
            if self._uses.get(key) != endpoints:
                self._forget(key)
                self._uses[key] = endpoints
            used = [self._known.setdefault(endpoint, _Known()) for endpoint in sorted(endpoints)]
            for known in used:
                known.users.add(key)
            full = next((known for known in used if known.free_places() <= 0), None)
            if full is not None:
                full.line.setdefault(key)
                return False
            for known in used:
                known.line.pop(key, None)
                known.turns.add(key)
            return True

    def leave(self, key: Key) -> tuple[Key, ...]:
        """End the turn of a table: the tables that may begin theirs."""
        with self._lock:
            self._asked.pop(threading.get_ident(), None)
            woken: list[Key] = []
            for endpoint in self._uses.get(key, frozenset()):
                known = self._known[endpoint]
                known.turns.discard(key)
                free = max(0, known.free_places())
                woken += list(known.line)[:free]
            return tuple(woken)

    def forget(self, key: Key) -> None:
        """A table was deleted, and with the last one its endpoints."""
        with self._lock:
            self._forget(key)

    def waiting_threads(self, seconds: float) -> frozenset[int]:
        """Threads that have waited for an answer for so long."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            # A request that was given up half-way in a thread of its own has no end.
            self._asked = {
                number: at_s for number, at_s in self._asked.items() if now_s - at_s < _FORGOTTEN_S
            }
            return frozenset(
                number for number, at_s in self._asked.items() if now_s - at_s > seconds
            )

    @property
    def unavailable(self) -> dict[Endpoint, str]:
        """Those that are left alone now, with the reason."""
        with self._lock:
            return {
                endpoint: known.problem for endpoint, known in self._known.items() if known.opened
            }

    @property
    def waiting(self) -> int:
        """Tables in line at endpoints."""
        with self._lock:
            return sum(len(known.line) for known in self._known.values())

    def _make_room(self, namespace: str) -> None:
        """Forget the eldest that no table of the namespace names, when there are too many."""
        unused = [
            candidate for candidate, known in self._known.items()
            if candidate.namespace == namespace and not known.users
        ]  # fmt: skip
        for endpoint in unused[: max(0, len(unused) - UNUSED_MAX + 1)]:
            del self._known[endpoint]

    def _forget(self, key: Key) -> None:
        for endpoint in self._uses.pop(key, frozenset()):
            known = self._known[endpoint]
            known.users.discard(key)
            known.turns.discard(key)
            known.line.pop(key, None)
            if not known.users:
                del self._known[endpoint]


@contextmanager
def probing() -> Iterator[None]:
    """Within, requests of this thread are let through to endpoints that are left alone."""
    token = _is_probe.set(True)
    try:
        yield
    finally:
        _is_probe.reset(token)


@dataclass(frozen=True, slots=True)
class EndpointGate:
    """The gate of one connection, see `RequestGate`. `before_write` raises in a process that is not
    the leader any more."""

    endpoints: Endpoints
    namespace: str
    access: str
    before_write: Callable[[], None]

    def refusal(self, server: str, *, writes: bool) -> str | None:
        if writes:
            self.before_write()
        return self.endpoints.refusal(Endpoint(self.namespace, server, self.access))

    def note(self, server: str, problem: str | None) -> None:
        self.endpoints.note(Endpoint(self.namespace, server, self.access), problem)


def endpoints_of(table: ResolvedTable) -> frozenset[Endpoint]:
    """Those of a table's folder, of its sources and of its catalog."""
    namespace = table.resource.metadata.namespace
    access = access_of(next(iter(table.stores.values()), None))
    places = (place for place in table.places if place.uri)
    servers = (
        StoreLocation.of(location.uri, dict(location.options)).server() for location in places
    )
    found = {Endpoint(namespace, server, access) for server in servers if server is not None}
    secret = source_access_of(table)
    found |= {Endpoint(namespace, server, secret) for server in source_servers(table)}
    catalog = catalog_endpoint(table)
    return frozenset(found if catalog is None else found | {catalog})


def source_servers(table: ResolvedTable) -> tuple[str, ...]:
    """Servers that looks at its sources ask."""
    named = (source.server for source in table.sources.values())
    return tuple(dict.fromkeys(server for server in named if server is not None))


def source_access_of(table: ResolvedTable) -> str:
    """How those servers are reached, which is the same for all of them."""
    return table.spec.source_secret or ""


def access_of(store: LakeStoreSpec | None) -> str:
    """How the stores of a table are reached, which is the same for all of them."""
    if store is None:
        return ""
    identity = store.web_identity
    names = (
        store.credentials.secret_name if store.credentials is not None else "",
        store.tls.ca_secret_name if store.tls is not None else "",
        store.client_certificate.secret_name if store.client_certificate is not None else "",
        str(identity) if identity is not None else "",
    )
    return "/".join(names)


def catalog_endpoint(table: ResolvedTable) -> Endpoint | None:
    """The catalog that keeps a table; None for one that is a folder."""
    catalog = table.resource.spec.home_catalog
    if catalog is None:
        return None
    server = f"catalog {catalog.uri or catalog.name}"
    return Endpoint(table.resource.metadata.namespace, server)
