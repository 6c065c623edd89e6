"""Servers by host and port, their addresses, and connections to these."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_address

from tideline.errors import StorageUnavailableError
from tideline.storage.egress.http import HEAD_BYTES_MAX
from tideline.storage.egress.route import HostPort
from tideline.trust.addresses import Address, AddressRules

Resolved = tuple[str, tuple[str, ...]]
"""The canonical name of a host, and its addresses."""
Resolve = Callable[[str, int], Resolved]
"""From a host and a port. Raises OSError."""


class EgressError(StorageUnavailableError):
    """No connection was made: none may be, when `is_refusal`, or none could be."""

    def __init__(self, message: str, *, is_refusal: bool = True) -> None:
        super().__init__(message)
        self.is_refusal = is_refusal


def resolved_by_system(host: str, port: int) -> tuple[str, tuple[str, ...]]:
    """What the resolver of this machine says."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME)
    canonical = next((pair[3] for pair in found if pair[3]), host)
    return canonical, tuple(dict.fromkeys(str(pair[4][0]) for pair in found))


def looked_up(resolve: Resolve, place: HostPort) -> Resolved:
    """Raises EgressError."""
    try:
        return resolve(place.host, place.port)
    except (OSError, UnicodeError) as error:
        raise EgressError("host name not found", is_refusal=False) from error


def checked_addresses(
    rules: AddressRules, namespace: str, host: str, resolved: Resolved, remedy: str
) -> tuple[Address, ...]:
    """The addresses of a host, which may all be connected to. Raises EgressError, whose message
    ends with `remedy`."""
    canonical, texts = resolved
    is_own = rules.is_own_service(host, canonical, namespace)
    addresses = tuple(map(ip_address, texts))
    for address in addresses:
        kind = rules.refusal(address, is_own_service=is_own)
        if kind is not None:
            resolves = "is" if str(address) == host else f"resolves to {address},"
            raise EgressError(f"{host} {resolves} {kind} that is not connected to{remedy}")
    if not addresses:
        raise EgressError("host name not found", is_refusal=False)
    return addresses


@dataclass(slots=True)
class Connected:
    """A connection to a server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def to(cls, addresses: Iterable[Address], port: int) -> Connected:
        """To the first address that answers. Raises EgressError."""
        problem = "cannot connect"
        for address in addresses:
            try:
                # An address, and so nothing is looked up again.
                reader, writer = await asyncio.open_connection(
                    str(address), port, limit=HEAD_BYTES_MAX
                )
            except OSError as error:
                problem = connect_problem(error)
                continue
            return cls(reader, writer)
        raise EgressError(problem, is_refusal=False)

    @property
    def is_over(self) -> bool:
        return self.reader.at_eof() or self.writer.is_closing()


def connect_problem(error: OSError) -> str:
    """Why a server could not be connected to."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return "timed out"
    return "cannot connect"
