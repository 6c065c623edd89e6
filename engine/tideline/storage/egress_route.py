"""How requests for one author's endpoint leave a process: through a proxy that judges addresses.

A route is a URL with a ticket in it, which the proxy gave out for a namespace and for the servers
that requests may go to. Clients take it as an ordinary proxy, so it also serves another process of
the same pod. What clients make of a refused connection says nothing of why: `problem` asks the
proxy.
"""

from __future__ import annotations

import http.client
import json
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

REFUSED_CODE = "EgressRefused"
UNREACHED_CODE = "EgressUnreached"
NO_TICKET_CODE = "EgressNoTicket"
"""What stands as the S3 error code in the proxy's own answers."""
PROBLEM_PATH = "/problem"
USER = "egress"
_ASKING_S = 2.0


class Egress(Protocol):
    """Gives out routes."""

    def to(self, server: str) -> EgressRoute:
        """For requests to the server of this URL alone, redirects included."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class EgressRoute:
    """`proxy_url` is a secret: whoever has it may send requests through the proxy."""

    proxy_url: str

    def __repr__(self) -> str:
        return "EgressRoute(...)"

    def problem(self) -> str | None:
        """Why the proxy did not connect when it was last asked to; None when it did."""
        parts = urlsplit(self.proxy_url)
        ticket = b64encode(f"{parts.username}:{parts.password}".encode()).decode()
        connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port or 0, timeout=_ASKING_S
        )
        with suppress(OSError, http.client.HTTPException, ValueError):
            connection.request(
                "GET", PROBLEM_PATH, headers={"Proxy-Authorization": f"Basic {ticket}"}
            )
            with connection.getresponse() as answer:
                found: dict[str, Any] = json.loads(answer.read(64 * 1024))
                problem = found.get("problem")
                return None if problem is None else str(problem)
        return None
