"""The author on whose behalf a process opens an Iceberg catalog, and what is reached. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from socket import socket
from typing import Any

from tideline.trust.author import Author


@dataclass(frozen=True, slots=True)
class CatalogAccess:
    """How a catalog is opened whose address and credentials `given_by` gave."""

    given_by: Author = Author.PROCESS
    """PROCESS: configuration files and the environment count as well. RESOURCE: nothing of the
    process's own does."""
    allows_local: bool = True
    """Whether tables, and SQLite's databases, may be on this machine."""
    proxy_for: Callable[[str], str] | None = None
    """The URL of the proxy that requests to the server of a URL go through; it may raise."""
    address_of: Callable[[str, int], str] | None = None
    """The numeric address, of a host and port, that a client which takes no proxy connects to; it
    raises StorageUnavailableError for a host that may not be connected to."""

    connect: Callable[[str, int], socket] | None = None
    """A connection to a host and port, for a protocol of its own; it raises
    StorageUnavailableError, for a host that may not be connected to as well."""

    aws_signer: Callable[[], Mapping[str, Any]] | None = None
    """Gives the resource's own credentials of AWS, for a catalog there that has none."""

    @property
    def is_of_process(self) -> bool:
        return self.given_by is Author.PROCESS


OF_PROCESS = CatalogAccess()
