"""Ports of this machine that no process listens on."""

from __future__ import annotations

import socket


def free_ports(count: int) -> list[int]:
    """So many different ones; another process may still take one before it is used."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports
