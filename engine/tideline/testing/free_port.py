"""Ports on the loopback interface for servers that tests start."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port that no process listens on; another process may still take it first."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """So many different ones."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports
