"""What a schema registry answers, within limits of time and size, and which answers are none.

1. No redirect is followed: the registry is the server that a spec names.
2. A registry that does not know something says so in its own words, JSON with a number of an error.
   A page that is not found is another server's, or a proxy's while the registry is away.
3. An answer has its time as a whole, however little of it comes at a time; one that is cut off is
   none.

Credentials are variables of the environment: SCHEMA_REGISTRY_USERNAME and SCHEMA_REGISTRY_PASSWORD;
SCHEMA_REGISTRY_CA_FILE, or SCHEMA_REGISTRY_CA with the PEM text, for an authority of its own.
Source: Confluent's Schema Registry API.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NoReturn, Self

from tideline.bounded.parsing import parse_json
from tideline.errors import ConfigError, CorruptTableError, StorageUnavailableError
from tideline.ingest.sources.kafka.decoded import NoRowError
from tideline.secret_values import note_secrets

_ANSWER_S = 20.0
_ANSWER_BYTES_MAX = 4 << 20
_CHUNK_BYTES = 1 << 16
_SCHEMES = ("http://", "https://")
_NOT_FOUND, _REFUSALS, _REDIRECTS = 404, (401, 403), range(300, 400)
_UNKNOWN = range(40401, 40500)
"""Errors of a registry that has no such subject, version or schema."""


def registry_answer(registry: str, path: str, what: str) -> bytes:
    """The body that the registry answers a question about `what` with.

    Raises NoRowError where it does not know it, ConfigError where it refuses this client,
    StorageUnavailableError.
    """
    if not registry.startswith(_SCHEMES):
        raise ConfigError("schemaRegistry is an address of http or https", value=registry)
    request = urllib.request.Request(f"{registry.rstrip('/')}/{path}", headers=_headers())
    with _Deadline(registry) as deadline:
        try:
            with _opener(deadline).open(request, timeout=_ANSWER_S) as response:
                return _body(response, deadline, what)
        except urllib.error.HTTPError as error:
            with error:
                _raise_for(error, registry, what)
        except (OSError, http.client.HTTPException) as error:
            deadline.check()
            message = f"the schema registry does not answer: {error}"
            raise StorageUnavailableError(message, path=registry) from error


def _raise_for(error: urllib.error.HTTPError, registry: str, what: str) -> NoReturn:
    if error.code == _NOT_FOUND:
        if _says_unknown(error):
            message = f"the schema registry has no {what}: is it the one of this topic?"
            raise NoRowError(message) from error
        message = (
            f"what answers is no schema registry ({error.code}): is schemaRegistry its address, "
            "with the path before /schemas where it has one?"
        )
        raise StorageUnavailableError(message, path=registry) from error
    if error.code in _REFUSALS:
        message = f"the schema registry refuses this client: {error.code}"
        raise ConfigError(message, path=registry) from error
    message = f"the schema registry answers {error.code}"
    if error.code in _REDIRECTS:
        message += ": give the address that it redirects to, redirects are not followed"
    raise StorageUnavailableError(message, path=registry) from error


def _says_unknown(error: urllib.error.HTTPError) -> bool:
    try:
        content = parse_json(error.read(_CHUNK_BYTES), what="answer of the schema registry")
    except (CorruptTableError, OSError, http.client.HTTPException):
        return False
    return isinstance(content, dict) and content.get("error_code") in _UNKNOWN


def _body(response: http.client.HTTPResponse, deadline: _Deadline, what: str) -> bytes:
    """All of an answer; one that trickles has no more time than one that is silent."""
    body = b""
    while chunk := response.read1(_CHUNK_BYTES):
        body += chunk
        if len(body) > _ANSWER_BYTES_MAX:
            raise NoRowError(f"{what} has more than {_ANSWER_BYTES_MAX:,} bytes")
    deadline.check()
    if response.length:
        message = "the answer of the schema registry was cut off"
        raise StorageUnavailableError(message, path=deadline.registry)
    return body


class _Deadline:
    """Ends the connections of a request that takes too long, whatever comes over them."""

    def __init__(self, registry: str) -> None:
        self.registry = registry
        self._sockets: list[socket.socket] = []
        self._is_over = threading.Event()
        self._timer = threading.Timer(_ANSWER_S, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()

    def bound(self, made: socket.socket) -> None:
        self._sockets.append(made)
        if self._is_over.is_set():
            self._end()

    def check(self) -> None:
        """Raises StorageUnavailableError where a connection was ended."""
        if self._is_over.is_set():
            message = f"the schema registry takes more than {_ANSWER_S:.0f} s for an answer"
            raise StorageUnavailableError(message, path=self.registry)

    def _end(self) -> None:
        self._is_over.set()
        for made in self._sockets:
            with contextlib.suppress(OSError):
                made.shutdown(socket.SHUT_RDWR)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like any other."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _opener(deadline: _Deadline) -> urllib.request.OpenerDirector:
    authority = os.environ.get("SCHEMA_REGISTRY_CA_FILE")
    text = os.environ.get("SCHEMA_REGISTRY_CA")
    try:
        context = ssl.create_default_context(cafile=authority or None, cadata=text or None)
    except OSError as error:
        message = "SCHEMA_REGISTRY_CA_FILE or SCHEMA_REGISTRY_CA cannot be read"
        raise ConfigError(message, path=authority) from error

    class Plain(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            deadline.bound(self.sock)

    class Encrypted(http.client.HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            deadline.bound(self.sock)

    class Http(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Plain, req)

    class Https(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Encrypted, req, context=context)

    return urllib.request.build_opener(_NoRedirect(), Http(), Https(context=context))


def _headers() -> Mapping[str, str]:
    name = os.environ.get("SCHEMA_REGISTRY_USERNAME")
    password = os.environ.get("SCHEMA_REGISTRY_PASSWORD", "")
    if not name:
        return {}
    token = base64.b64encode(f"{name}:{password}".encode()).decode()
    note_secrets((password, token))
    return {"Authorization": f"Basic {token}"}
