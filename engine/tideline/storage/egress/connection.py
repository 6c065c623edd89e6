"""One client's connection to the egress proxy: a tunnel, or requests one after another."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

from tideline.storage.egress.http import HEAD_BYTES_MAX, Copy, Head, MessageError, read_head
from tideline.storage.egress.places import Connected, EgressError
from tideline.storage.egress.route import (
    ADDRESS_PATH,
    NO_TICKET_CODE,
    PROBLEM_PATH,
    REFUSED_CODE,
    UNREACHED_CODE,
    Bound,
    HostPort,
)

Serve: TypeAlias = Callable[
    [asyncio.StreamReader, asyncio.StreamWriter, "ClientProtocol"], Awaitable[None]
]
"""Serves one connection, to its end."""

_FLUSH_S = 5.0
_BODILESS = (b"204", b"304")
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a connection may do: for a namespace, within a bound."""

    namespace: str
    bound: Bound


class Door(Protocol):
    """Decides for connections, see `EgressProxy`."""

    def namespace_of(self, secret: str) -> str | None:
        """Whose secret it is; None for one that was not given out."""

    def problem_report(self, ticket: Ticket) -> bytes:
        """What `EgressRoute.problem` asks for."""

    async def address_report(self, ticket: Ticket) -> bytes:
        """What `Egress.checked_address` asks for: an address of the place that the ticket is bound
        to."""
        ...

    def admit(self, ticket: Ticket, connection: ClientConnection) -> None:
        """Count a connection for its namespace. Raises EgressError when there are too many."""

    async def connect(self, ticket: Ticket, place: HostPort) -> Connected:
        """A connection to a place, once it was checked. Raises EgressError."""
        ...


class ClientProtocol(asyncio.StreamReaderProtocol):
    """Ends the connection as soon as the client does: what it waited for has no reader."""

    def __init__(self, reader: asyncio.StreamReader, serve: Serve) -> None:
        super().__init__(reader, lambda r, w: serve(r, w, self))
        self.on_end: Callable[[], None] = lambda: None

    def eof_received(self) -> bool:
        super().eof_received()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.on_end()


async def listen(serve: Serve) -> tuple[asyncio.Server, int]:
    """Listen on the loopback interface; the server, and its port."""
    loop = asyncio.get_running_loop()

    def accepted() -> ClientProtocol:
        return ClientProtocol(asyncio.StreamReader(limit=HEAD_BYTES_MAX, loop=loop), serve)

    server = await loop.create_server(accepted, "127.0.0.1", 0, backlog=512)
    return server, server.sockets[0].getsockname()[1]


class ClientConnection:
    """Serves a client until one side ends. `namespace` is set once a ticket was shown."""

    def __init__(
        self, door: Door, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.namespace: str | None = None
        self._door = door
        self._reader = reader
        self._writer = writer
        self._server: Connected | None = None
        self._place: HostPort | None = None
        self._clock = asyncio.get_running_loop().time
        self.last_byte_s = self._clock()

    async def serve(self) -> None:
        """Until the connection ends."""
        with suppress(OSError, MessageError, asyncio.CancelledError):
            while (head := await read_head(self._reader)) is not None:
                self._note()
                if not await self._answer(head):
                    return

    def end(self) -> None:
        """Close both sides: what was passed to the client before still reaches it."""
        self._leave_server()
        if not self._writer.is_closing():
            self._writer.close()
            asyncio.get_running_loop().call_later(_FLUSH_S, self._writer.transport.abort)

    def abort(self) -> None:
        """Close both sides at once."""
        self._leave_server()
        self._writer.transport.abort()

    async def _answer(self, head: Head) -> bool:
        """Carry out one request; whether another may follow."""
        method, target, _ = head.first
        ticket = self._ticket(head)
        if ticket is None:
            return await self._say(b"407 Proxy Authentication Required", NO_TICKET_CODE)
        if target == PROBLEM_PATH.encode():
            return await self._say(b"200 OK", "", self._door.problem_report(ticket))
        if target.startswith(ADDRESS_PATH.encode()):
            return await self._say(b"200 OK", "", await self._door.address_report(ticket))
        wanted = _Destination.of(method, target)
        try:
            self._door.admit(ticket, self)
            server = await self._reach(ticket, wanted.place)
        except EgressError as error:
            code = REFUSED_CODE if error.is_refusal else UNREACHED_CODE
            status = b"403 Forbidden" if error.is_refusal else b"502 Bad Gateway"
            return await self._say(status, code)
        if method == b"CONNECT":
            self._writer.write(_ESTABLISHED)
            await self._tunnel(server)
            return False
        return await self._pass_on(head, server, wanted)

    def _ticket(self, head: Head) -> Ticket | None:
        for value in head.values(b"proxy-authorization"):
            scheme, _, encoded = value.partition(b" ")
            with suppress(binascii.Error, ValueError):
                user, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
                namespace = self._door.namespace_of(secret)
                if scheme.lower() == b"basic" and namespace is not None:
                    return Ticket(namespace, Bound.decoded(user))
        return None

    async def _reach(self, ticket: Ticket, place: HostPort) -> Connected:
        server = self._server
        if server is not None and self._place == place and not server.is_over:
            return server
        self._leave_server()
        self._server, self._place = await self._door.connect(ticket, place), place
        return self._server

    async def _tunnel(self, server: Connected) -> None:
        there = Copy(self._reader, server.writer, self._note)
        back = Copy(server.reader, self._writer, self._note)
        ways = {asyncio.create_task(way.rest()) for way in (there, back)}
        try:
            # One side that ends is the end of the other: what was passed before still arrives.
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel(ways)

    async def _pass_on(self, head: Head, server: Connected, wanted: _Destination) -> bool:
        method = head.first[0]
        first = b" ".join((method, wanted.path, b"HTTP/1.1"))
        server.writer.write(head.passed_on(first, host=wanted.host))
        is_head = method == b"HEAD"
        if not head.length and not head.is_chunked:
            return await self._pass_back(server, is_head=is_head) and not head.is_last()
        there = Copy(self._reader, server.writer, self._note)
        sending = asyncio.create_task(there.body(head, until_end=False))
        try:
            keeps = await self._pass_back(server, is_head=is_head)
            # A server that answers before the body has arrived reads no more of it.
            return keeps and sending.done() and sending.exception() is None and not head.is_last()
        finally:
            await _cancel({sending})

    async def _pass_back(self, server: Connected, *, is_head: bool) -> bool:
        """The answer to the client; whether both connections can be used again."""
        while True:
            answer = await read_head(server.reader)
            if answer is None:
                # As if it were the server: clients repeat what may be repeated.
                return False
            version, status, words = answer.first
            if not version.startswith(b"HTTP/1.") or status == b"101":
                raise MessageError("the answer is not HTTP/1.1")
            first = b" ".join((b"HTTP/1.1", status, words))
            if not status.startswith(b"1"):
                break
            if status == b"100":
                self._writer.write(answer.passed_on(first))
        length = answer.length
        has_body = not is_head and status not in _BODILESS
        is_open_ended = has_body and length is None and not answer.is_chunked
        self._writer.write(answer.passed_on(first, closes=is_open_ended))
        if has_body:
            await Copy(server.reader, self._writer, self._note).body(answer, until_end=True)
        await self._writer.drain()
        if answer.is_last() or version == b"HTTP/1.0":
            self._leave_server()
        return not is_open_ended

    async def _say(self, status: bytes, code: str, body: bytes | None = None) -> bool:
        """An answer of the proxy's own, after which the connection ends: a body may follow that
        nobody reads."""
        text = f"<Error><Code>{code}</Code></Error>".encode() if body is None else body
        self._writer.write(
            b"HTTP/1.1 " + status + b"\r\ncontent-length: " + str(len(text)).encode()
            + b"\r\nconnection: close\r\n\r\n" + text
        )  # fmt: skip
        await self._writer.drain()
        return False

    def _leave_server(self) -> None:
        server, self._server, self._place = self._server, None, None
        if server is not None:
            server.writer.transport.abort()

    def _note(self) -> None:
        self.last_byte_s = self._clock()


@dataclass(frozen=True, slots=True)
class _Destination:
    """Where a request goes, as the server's own request line and field `host` say it."""

    place: HostPort
    host: bytes
    path: bytes

    @classmethod
    def of(cls, method: bytes, target: bytes) -> _Destination:
        """Raises MessageError."""
        is_tunnel = method == b"CONNECT"
        text = f"//{target.decode('latin-1')}" if is_tunnel else target.decode("latin-1")
        if not is_tunnel and not text.startswith("http://"):
            raise MessageError("not a request to a proxy")
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise MessageError("the address is not one") from error
        if not host or parts.username is not None or (is_tunnel and port is None):
            raise MessageError("the address is not one")
        server = parts.netloc.encode("latin-1")
        path = b"" if is_tunnel else target[len(b"http://") + len(server) :]
        return cls(HostPort.of(host, port or 80), server, path if path[:1] == b"/" else b"/" + path)


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
