"""How requests for one author's endpoint leave a process: through a proxy that checks addresses.

A route is the URL of that proxy, which clients take as an ordinary one. Its password is the ticket
of a namespace, its user says which server requests may go to: a client binds itself to that, so
that no redirect leads it elsewhere. What clients make of a refused connection says nothing of why:
`problem` asks the proxy.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import socket
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tideline.errors import ConfigError, StorageUnavailableError

REFUSED_CODE = "EgressRefused"
UNREACHED_CODE = "EgressUnreached"
NO_TICKET_CODE = "EgressNoTicket"
"""What stands as the S3 error code in the proxy's own answers."""
PROBLEM_PATH = "/problem"
ADDRESS_PATH = "/address/"
_ASKING_S = 2.0
_TUNNEL_S = 5.0
"""A little more than the proxy takes to connect."""
_HEAD_BYTES_MAX = 4096
_HOST = re.compile(r"[a-z0-9._:-]{1,253}")
"""Names and addresses: it stands in a request line."""


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A host, in lower case and without a final dot, and a port."""

    host: str
    port: int

    @classmethod
    def of(cls, host: str, port: int) -> HostPort:
        """Raises UnicodeError for a host that no name can be."""
        if not host.isascii():
            host = host.encode("idna").decode()
        return cls(host.lower().removesuffix("."), port)

    @classmethod
    def of_url(cls, url: str) -> HostPort:
        """Raises ConfigError for a URL without a host."""
        try:
            parts = urlsplit(url)
            if parts.hostname:
                return cls.of(
                    parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
                )
        except ValueError:
            pass
        raise ConfigError("the endpoint must be a URL like https://host:9000", value=url)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Bound:
    """What a route's connections are bound to: a place, or no more than the rules. Problems are
    kept for each bound; `purpose` tells those of one kind apart."""

    place: HostPort | None
    purpose: str = ""

    def encoded(self) -> str:
        """As the user of a proxy's URL, without a character that has a meaning there."""
        if self.place is None:
            return f"any.{hashlib.sha256(self.purpose.encode()).hexdigest()[:16]}"
        text = f"{self.place.port} {self.place.host}".encode()
        return f"to.{urlsafe_b64encode(text).decode().rstrip('=')}"

    @classmethod
    def decoded(cls, user: str) -> Bound:
        """Raises ValueError."""
        kind, _, text = user.partition(".")
        if kind == "any":
            return cls(None, text)
        if kind != "to":
            raise ValueError(user)
        port, _, host = urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode().partition(" ")
        return cls(HostPort(host, int(port)))


@dataclass(frozen=True, slots=True, repr=False)
class Egress:
    """The routes of one namespace. A value: what holds it may be another process of the pod.

    `proxy_url` is a secret: its holder may send requests through the proxy.
    """

    proxy_url: str

    def __repr__(self) -> str:
        return "Egress(...)"

    def to(self, server: str) -> EgressRoute:
        """For requests to the server of this URL alone, redirects included. Raises ConfigError for
        a URL without a host."""
        return self._route(Bound(HostPort.of_url(server)))

    def anywhere(self, purpose: str) -> EgressRoute:
        """For requests to any server that the rules permit."""
        return self._route(Bound(None, purpose))

    def checked_address(self, host: str, port: int) -> str:
        """An address of the host that may be connected to, for clients that take no proxy.

        Raises StorageUnavailableError with the reason when there is none.
        """
        place = HostPort.of(host, port)
        answer = self.to(f"tcp://{place}").answer(f"{ADDRESS_PATH}{place}")
        address = answer.get("address")
        if address is None:
            problem = answer.get("problem") or "the proxy gives no address"
            raise StorageUnavailableError(str(problem)) from ConnectionError("not connected")
        return str(address)

    def connect(self, host: str, port: int) -> socket.socket:
        """A connection to a host, for clients that speak no HTTP: by way of the proxy, to an
        address that it has checked. Raises StorageUnavailableError with the reason."""
        try:
            place = HostPort.of(host, port)
            if not 0 < port < 1 << 16 or not _HOST.fullmatch(place.host):
                raise ValueError(port)
        except ValueError:
            raise StorageUnavailableError("the address is not one") from None
        return self.to(f"tcp://{place}").tunnel(place)

    def _route(self, bound: Bound) -> EgressRoute:
        scheme, _, rest = self.proxy_url.partition("://")
        return EgressRoute(f"{scheme}://{bound.encoded()}:{rest.partition(':')[2]}")


@dataclass(frozen=True, slots=True, repr=False)
class EgressRoute:
    """A way to one server, or to any. `proxy_url` is a secret."""

    proxy_url: str

    def __repr__(self) -> str:
        return "EgressRoute(...)"

    def problem(self) -> str | None:
        """Why the proxy did not connect when it was last asked to; None when it did."""
        problem = self.answer(PROBLEM_PATH).get("problem")
        return None if problem is None else str(problem)

    def tunnel(self, place: HostPort) -> socket.socket:
        """A connection to a place. Raises StorageUnavailableError."""
        parts = urlsplit(self.proxy_url)
        request = f"CONNECT {place} HTTP/1.1\r\nProxy-Authorization: Basic {self.ticket()}\r\n\r\n"
        made = None
        try:
            made = socket.create_connection((parts.hostname or "", parts.port or 0), _ASKING_S)
            made.settimeout(_TUNNEL_S)
            made.sendall(request.encode())
            is_open = _head_of(made).startswith(b"HTTP/1.1 200 ")
        except OSError:
            is_open = False
        if made is not None and is_open:
            return made
        if made is not None:
            made.close()
        problem = self.problem() or "the proxy does not connect"
        raise StorageUnavailableError(problem) from ConnectionError("not connected")

    def answer(self, path: str) -> dict[str, Any]:
        """What the proxy itself says at a path; empty when it does not answer."""
        parts = urlsplit(self.proxy_url)
        connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port or 0, timeout=_ASKING_S
        )
        with suppress(OSError, http.client.HTTPException, ValueError):
            connection.request(
                "GET", path, headers={"Proxy-Authorization": f"Basic {self.ticket()}"}
            )
            with connection.getresponse() as answer:
                found: dict[str, Any] = json.loads(answer.read(64 * 1024))
                return found
        return {}

    def ticket(self) -> str:
        """What identifies the namespace to the proxy, as a field `Proxy-Authorization` has it after
        `Basic`; a secret."""
        parts = urlsplit(self.proxy_url)
        return b64encode(f"{parts.username}:{parts.password}".encode()).decode()


def _head_of(connection: socket.socket) -> bytes:
    """The head of the proxy's answer, and nothing of what follows. Raises OSError."""
    head = bytearray()
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        if not byte or len(head) > _HEAD_BYTES_MAX:
            raise ConnectionError("no answer")
        head += byte
    return bytes(head)
