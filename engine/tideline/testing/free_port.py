"""Ports on the loopback interface for servers that tests start."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port that no process listens on; another process may still take it first."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
