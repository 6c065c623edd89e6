"""Endpoints of S3 that never answer, on the loopback interface, for the length of a `with` block.

Every other one accepts connections and stays silent, as a server that hangs does; the rest refuse
them.
"""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

_BACKLOG = 512


class DeadEndpoints:
    """So many; `urls` are theirs."""

    def __init__(self, count: int) -> None:
        # Bound and not listening refuses; listening without accepting is silent.
        self._sockets = [socket.socket() for _ in range(count)]
        for number, candidate in enumerate(self._sockets):
            candidate.bind(("127.0.0.1", 0))
            if number % 2 == 0:
                candidate.listen(_BACKLOG)
        self.urls = tuple(f"http://127.0.0.1:{entry.getsockname()[1]}" for entry in self._sockets)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for candidate in self._sockets:
            candidate.close()
