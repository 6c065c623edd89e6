"""One request of HTTP over a socket that is given: a form is sent, and an answer is read within the
socket's bounds. No redirect is followed, and no proxy of the environment is asked."""

from __future__ import annotations

import http.client
import io
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast
from urllib.parse import urlencode

from tideline.ingest.sources.wire.bounded_socket import BoundedSocket

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class NoHttpError(Exception):
    """What answers does not speak HTTP."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Its status and all of its body."""

    status: int
    body: bytes


def post_form(
    connection: BoundedSocket, host: str, target: str, form: Mapping[str, str], authorization: str
) -> HttpAnswer:
    """The answer to this form. Raises OSError, TooMuchError, NoHttpError; ValueError for a target
    or a header that has a line of its own."""
    body = urlencode(form).encode()
    headers = {
        "Host": host,
        "Authorization": authorization,
        "Accept": "application/json",
        "Content-Type": "application/x-www-form-urlencoded",
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    lines = [f"POST {target} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
    if not all(line.isascii() and line.isprintable() for line in lines):
        raise ValueError("the request has characters that are not sent")
    connection.send("\r\n".join((*lines, "", "")).encode() + body)
    answer = http.client.HTTPResponse(cast("socket.socket", _Answering(connection)), method="POST")
    try:
        answer.begin()
        return HttpAnswer(answer.status, answer.read())
    except (http.client.RemoteDisconnected, http.client.IncompleteRead) as error:
        raise ConnectionError("the server closed the connection") from error
    except http.client.HTTPException as error:
        raise NoHttpError(type(error).__name__) from error
    except ValueError as error:
        raise NoHttpError("a number is none") from error


@dataclass(frozen=True, slots=True)
class _Answering:
    """What the parser of the standard library takes of a socket."""

    connection: BoundedSocket

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002
        return io.BufferedReader(_Stream(self.connection))


class _Stream(io.RawIOBase):
    def __init__(self, connection: BoundedSocket) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        chunk = self._connection.receive_some(len(view))
        view[: len(chunk)] = chunk
        return len(chunk)
