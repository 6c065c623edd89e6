"""A proxy on the loopback interface that adds TLS with a client's certificate to requests.

obstore shows servers no certificate. It sends requests for `https://` servers that demand one in
plain HTTP to this proxy, in the same process, which connects to the server by TLS, checks the
server's certificate and shows its own. Signatures stay as they are: `Host` does not change.

A ticket in the proxy's URL says that a connection is of this process, and which server it goes to.
Files are looked at before each connection, so that a certificate that is replaced counts for the
next; half of a replacement does not. A server says late that it does not take a certificate: after
the handshake, where the answer should be. It has not read the request then, and the client gets an
answer of ours.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import ssl
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import SupportsIndex

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.secret_values import note_secrets
from tideline.storage.egress.client_certificate import ClientCertificate
from tideline.storage.egress.connection import ClientConnection, ClientProtocol, Ticket, listen
from tideline.storage.egress.http import HEAD_BYTES_MAX
from tideline.storage.egress.places import Connected, EgressError, connect_problem
from tideline.storage.egress.route import Bound, Egress, EgressRoute, HostPort

_CONNECT_S = 5.0
_END_S = 2.0
_ALERT = re.compile(r"ALERT_(\w+)")
_REFUSALS = {
    "CERTIFICATE_EXPIRED": "has expired for the server: renew it",
    "UNKNOWN_CA": "is of an authority that the server does not know: have it issued by the one "
    "that the server demands",
    "CERTIFICATE_REVOKED": "was revoked: have another issued",
    "BAD_CERTIFICATE": "is not taken by the server: check its authority, its end and its uses",
    "CERTIFICATE_UNKNOWN": "is not taken by the server: check its authority, its end and its uses",
    "UNSUPPORTED_CERTIFICATE": "is not one for clients: have one issued with that use",
    "CERTIFICATE_REQUIRED": "is not of the kind that the server demands",
    "HANDSHAKE_FAILURE": "may be what the server refuses: check its authority, its end and its "
    "uses",
    "ACCESS_DENIED": "is not admitted by the server: check whom it admits",
    "DECRYPT_ERROR": "is not taken by the server: check that the key is that of the certificate",
}
"""What a server says by an alert of TLS, once it has seen the certificate."""


class CertificateRelay:
    """See the module. Serves from `start` to `close`; for any number of threads. `certificate` is
    called before each connection, and gives the same value until another is to be shown."""

    def __init__(
        self,
        certificate: Callable[[], ClientCertificate],
        authorities: bytes | None,
        egress: Egress | None = None,
    ) -> None:
        """`authorities` are trusted besides the machine's; `egress` gives the way to a server."""
        self._certificate = certificate
        self._authorities = authorities
        self._egress = egress
        self._secret = secrets.token_urlsafe(24)
        note_secrets([self._secret])
        self._shown = certificate()
        self._context = self._shown.context(authorities)
        self._problems: dict[Bound, str] = {}
        self._port = 0

    def start(self) -> CertificateRelay:
        """Begin to listen, on a port of the loopback interface."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="certificate-relay", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def close(self) -> None:
        """Have every connection end, and the thread; waits for neither."""
        with suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(self._end(), self._loop)

    def to(self, server: str) -> EgressRoute:
        """The way to the server of an https:// URL, and to no other. Raises ConfigError."""
        if not server.startswith("https://"):
            raise ConfigError("a client certificate needs an https endpoint", value=server)
        bound = Bound(HostPort.of_url(server)).encoded()
        return EgressRoute(f"http://{bound}:{self._secret}@127.0.0.1:{self._port}")

    def namespace_of(self, secret: str) -> str | None:
        """See `Door`."""
        return "" if secrets.compare_digest(secret.encode(), self._secret.encode()) else None

    def problem_report(self, ticket: Ticket) -> bytes:
        """See `Door`."""
        return json.dumps({"problem": self._problems.get(ticket.bound)}).encode()

    async def address_report(self, _: Ticket) -> bytes:
        """See `Door`: addresses are not a matter of this proxy."""
        return json.dumps({"problem": "no address is given"}).encode()

    def admit(self, ticket: Ticket, connection: ClientConnection) -> None:
        """See `Door`: all connections are of this process."""

    async def connect(self, ticket: Ticket, place: HostPort) -> Connected:
        """See `Door`. A request in plain HTTP names port 80 where the server's is the default."""
        bound = ticket.bound.place
        is_same = bound is not None and place.host == bound.host
        if bound is None or not is_same or place.port not in (bound.port, 80):
            raise EgressError(f"the server redirects to {place}, which is not its endpoint")
        try:
            async with asyncio.timeout(_CONNECT_S):
                return await self._secured(ticket.bound, bound)
        except TimeoutError:
            raise self._noted(ticket.bound, "timed out", is_refusal=False) from None

    async def _secured(self, bound: Bound, place: HostPort) -> Connected:
        reader = _AnswerReader(
            lambda: self._problems.pop(bound, None),
            lambda error: self._note_alert(bound, error),
            self._loop,
        )
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        context = await self._loop.run_in_executor(None, self._current_context)
        try:
            if self._egress is None:
                transport, _ = await self._loop.create_connection(
                    lambda: protocol, place.host, place.port, ssl=context,
                    server_hostname=place.host,
                )  # fmt: skip
            else:
                tunnel = await self._loop.run_in_executor(
                    None, self._egress.connect, place.host, place.port
                )
                transport, _ = await self._loop.create_connection(
                    lambda: protocol, sock=tunnel, ssl=context, server_hostname=place.host
                )
        except StorageUnavailableError as error:
            raise self._noted(bound, error.message, is_refusal=False) from None
        except ssl.SSLError as error:
            words = self._refusal(error) or _words(error)
            raise self._noted(bound, words, is_refusal=True) from None
        except OSError as error:
            raise self._noted(bound, _words(error), is_refusal=False) from None
        writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        return Connected(reader, writer)

    def _current_context(self) -> ssl.SSLContext:
        """With what is shown now; the last one while there is none."""
        with suppress(ConfigError):
            found = self._certificate()
            if found is not self._shown:
                self._context = found.context(self._authorities)
                self._shown = found
        return self._context

    def _note_alert(self, bound: Bound, error: BaseException) -> bytes | None:
        """The answer to a request that a server did not read, because of the certificate."""
        words = self._refusal(error) if isinstance(error, ssl.SSLError) else None
        if words is None:
            return None
        self._problems[bound] = words
        return _REFUSED

    def _refusal(self, error: ssl.SSLError) -> str | None:
        found = _ALERT.search(error.reason or "")
        words = _REFUSALS.get(found[1]) if found else None
        return None if words is None else f"{self._shown.name} {words}"

    def _noted(self, bound: Bound, words: str, *, is_refusal: bool) -> EgressError:
        self._problems[bound] = words
        return EgressError(words, is_refusal=is_refusal)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    async def _listen(self) -> None:
        self._server, self._port = await listen(self._serve)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, protocol: ClientProtocol
    ) -> None:
        connection = ClientConnection(self, reader, writer)
        protocol.on_end = connection.end
        try:
            await connection.serve()
        finally:
            connection.end()

    async def _end(self) -> None:
        self._server.close()
        await asyncio.sleep(0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=_END_S)
        self._loop.call_soon(self._loop.stop)


_BODY = b"<Error><Code>EgressRefused</Code></Error>"
_REFUSED = (
    b"HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(_BODY)
) + _BODY


class _AnswerReader(asyncio.StreamReader):
    """A server's answers; `on_data` is called at the first. `on_error` may give one in the place of
    an error before it."""

    def __init__(
        self,
        on_data: Callable[[], object],
        on_error: Callable[[BaseException], bytes | None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(limit=HEAD_BYTES_MAX, loop=loop)
        self._on_data = on_data
        self._on_error = on_error
        self._has_data = False

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        if not self._has_data:
            self._has_data = True
            self._on_data()
        super().feed_data(data)

    def set_exception(self, exc: Exception) -> None:
        answer = None if self._has_data else self._on_error(exc)
        if answer is None:
            super().set_exception(exc)
        else:
            super().feed_data(answer)
            self.feed_eof()


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS certificate refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return "TLS refused"
    return "host name not found" if "getaddrinfo" in repr(error) else connect_problem(error)
