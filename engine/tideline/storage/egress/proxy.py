"""A proxy on the loopback interface that checks where a process connects to for others.

Clients such as obstore resolve names and follow redirects by themselves. Through this proxy they do
neither alone: it resolves a name once, checks each address (`tideline.trust.addresses`) and
connects to one that was checked, for every connection, that of a redirect included. https:// is
passed as it is (CONNECT), so the certificate is checked by the client; of http:// each message is
read to its end.

A ticket says for which namespace a connection is, and to which servers it may go; without one
nothing is passed on. One thread serves all connections; names are looked up in others. Nothing is
kept: at most a few hundred kilobytes of a body are on their way.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tideline.secret_values import note_secrets
from tideline.storage.egress.connection import ClientConnection, ClientProtocol, Ticket, listen
from tideline.storage.egress.places import (
    Connected,
    EgressError,
    Resolve,
    Resolved,
    checked_addresses,
    looked_up,
    resolved_by_system,
)
from tideline.storage.egress.route import Egress, HostPort
from tideline.trust.addresses import Address, AddressRules

_LOOKUP_THREADS = 32
_SWEEP_S = 5.0
_END_S = 2.0
_NO_TICKET_S = 10.0


@dataclass(frozen=True, slots=True)
class EgressLimits:
    """`connect_s` is for looking a name up and connecting; a connection without a byte is closed
    after `idle_s`. Of one namespace so many connections and lookups are under way at a time, and so
    many problems are remembered."""

    connect_s: float = 2.5
    idle_s: float = 100.0
    connections_max: int = 2_048
    connections_per_namespace_max: int = 512
    lookups_per_namespace_max: int = 8
    problems_max: int = 4_096


@dataclass(slots=True)
class _State:
    """What the thread of the loop keeps."""

    open: dict[ClientConnection, None] = field(default_factory=dict)
    by_namespace: Counter[str] = field(default_factory=Counter)
    lookups: dict[HostPort, asyncio.Future[Resolved]] = field(default_factory=dict)
    lookups_by_namespace: Counter[str] = field(default_factory=Counter)
    problems: dict[Ticket, str] = field(default_factory=dict)


class EgressProxy:
    """See the module. Serves from `start` to `close`; for any number of threads."""

    def __init__(
        self,
        rules: AddressRules,
        *,
        resolve: Resolve = resolved_by_system,
        limits: EgressLimits | None = None,
        remedy: str = "",
    ) -> None:
        """`remedy` ends the message about an address that is not connected to."""
        self.limits = limits or EgressLimits()
        self._remedy = remedy
        self._rules = rules
        self._resolve = resolve
        self._lock = threading.Lock()
        self._secrets: dict[str, str] = {}
        self._namespaces: dict[str, str] = {}
        self._state = _State()
        self._thread: threading.Thread | None = None
        self._port = 0

    def start(self) -> EgressProxy:
        """Begin to listen, on a port of the loopback interface."""
        self._loop = asyncio.new_event_loop()
        self._pool = ThreadPoolExecutor(_LOOKUP_THREADS, thread_name_prefix="egress-lookup")
        self._thread = threading.Thread(target=self._run, name="egress", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def close(self) -> None:
        """End every connection, and the threads."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        thread.join()
        self._loop.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def of(self, namespace: str) -> Egress:
        """The routes of a namespace, once this listens."""
        with self._lock:
            secret = self._secrets.get(namespace)
            if secret is None:
                secret = self._secrets[namespace] = secrets.token_urlsafe(24)
                note_secrets([secret])
                self._namespaces[secret] = namespace
        return Egress(f"http://egress:{secret}@127.0.0.1:{self._port}")

    def url_for(self, namespace: str) -> str:
        """A proxy's URL for a client of the namespace, to any server that the rules permit."""
        return self.of(namespace).anywhere("").proxy_url

    def namespace_of(self, secret: str) -> str | None:
        """See `Door`."""
        return self._namespaces.get(secret)

    def problem_report(self, ticket: Ticket) -> bytes:
        """See `Door`."""
        return json.dumps({"problem": self._state.problems.get(ticket)}).encode()

    async def address_report(self, ticket: Ticket) -> bytes:
        """See `Door`."""
        place = ticket.bound.place
        if place is None:
            return json.dumps({"problem": "no host is named"}).encode()
        try:
            async with self._in_time():
                addresses = await self._addresses(ticket.namespace, place)
        except EgressError as error:
            return json.dumps({"problem": str(error)}).encode()
        return json.dumps({"address": str(addresses[0])}).encode()

    async def connect(self, ticket: Ticket, place: HostPort) -> Connected:
        """See `Door`. What went wrong last is kept for `problem_report`."""
        problems, bound = self._state.problems, ticket.bound.place
        try:
            if bound is not None and place != bound:
                raise EgressError(f"the server redirects to {place}, which is not its endpoint")
            async with self._in_time():
                addresses = await self._addresses(ticket.namespace, place)
                connected = await Connected.to(addresses, place.port)
        except EgressError as error:
            problems.pop(ticket, None)
            problems[ticket] = str(error)
            while len(problems) > self.limits.problems_max:
                del problems[next(iter(problems))]
            raise
        problems.pop(ticket, None)
        return connected

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        """Raises EgressError when `connect_s` are over."""
        try:
            async with asyncio.timeout(self.limits.connect_s):
                yield
        except TimeoutError:
            raise EgressError("timed out", is_refusal=False) from None

    async def _addresses(self, namespace: str, place: HostPort) -> tuple[Address, ...]:
        found = await self._look_up(namespace, place)
        return checked_addresses(self._rules, namespace, place.host, found, self._remedy)

    async def _look_up(self, namespace: str, place: HostPort) -> Resolved:
        """What a place's host resolves to; connections that begin meanwhile get the same answer."""
        state = self._state
        lookup = state.lookups.get(place)
        if lookup is None:
            if state.lookups_by_namespace[namespace] >= self.limits.lookups_per_namespace_max:
                raise EgressError("too many host names are being looked up", is_refusal=False)
            state.lookups_by_namespace[namespace] += 1
            lookup = self._loop.run_in_executor(self._pool, looked_up, self._resolve, place)
            state.lookups[place] = lookup

            def ended(done: asyncio.Future[Resolved]) -> None:
                state.lookups_by_namespace[namespace] -= 1
                del state.lookups[place]
                if not done.cancelled():
                    done.exception()

            # A lookup that is given up still takes its thread.
            lookup.add_done_callback(ended)
        return await asyncio.shield(lookup)

    def admit(self, ticket: Ticket, connection: ClientConnection) -> None:
        """Count a connection for its namespace. Raises EgressError when there are too many."""
        if connection.namespace is None:
            counts = self._state.by_namespace
            if counts[ticket.namespace] >= self.limits.connections_per_namespace_max:
                raise EgressError("too many connections", is_refusal=False)
            counts[ticket.namespace] += 1
            connection.namespace = ticket.namespace

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _listen(self) -> None:
        self._server, self._port = await listen(self._serve)
        self._sweeper = self._loop.create_task(self._sweep())

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, protocol: ClientProtocol
    ) -> None:
        connection = ClientConnection(self, reader, writer)
        protocol.on_end = connection.end
        if len(self._state.open) >= self.limits.connections_max and not self._make_room():
            connection.end()
            return
        self._state.open[connection] = None
        try:
            await connection.serve()
        finally:
            connection.end()
            self._state.open.pop(connection, None)
            if connection.namespace is not None:
                self._state.by_namespace[connection.namespace] -= 1

    def _make_room(self) -> bool:
        """End the eldest connection without a ticket: every process of the pod can open one, and
        a client shows its ticket at once."""
        eldest = next(
            (connection for connection in self._state.open if connection.namespace is None), None
        )
        if eldest is None:
            return False
        del self._state.open[eldest]
        eldest.abort()
        return True

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(_SWEEP_S, self.limits.idle_s / 2))
            now_s = self._loop.time()
            for connection in tuple(self._state.open):
                is_nobodys = connection.namespace is None
                idle_s = min(_NO_TICKET_S, self.limits.idle_s) if is_nobodys else self.limits.idle_s
                if connection.last_byte_s < now_s - idle_s:
                    connection.end()

    async def _end(self) -> None:
        self._server.close()
        deadline_s = self._loop.time() + _END_S
        # A connection that was just accepted has its task a moment later.
        await asyncio.sleep(0)
        connections = tuple(self._state.open)
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=_END_S)
            if self._loop.time() > deadline_s:
                break
        for connection in connections:
            connection.abort()
        await asyncio.sleep(0)
