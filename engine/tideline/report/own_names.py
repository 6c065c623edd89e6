"""Which names in a request's `Host` are this machine's own.

A page of the web that a browser has open cannot read what a server on this machine serves, but for
one trick: its name is made to lead here after it was loaded (DNS rebinding). The browser then still
sends that name.
"""

from __future__ import annotations

import socket
from ipaddress import ip_address

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def is_own_name(host: str, listens_on: str) -> bool:
    """Whether `host`, a header, is meant for a server that listens on this address.

    A server on the loopback interface has its names alone. One that others reach has its machine's
    name as well, and any address: only names can be made to lead elsewhere.
    """
    name, _, port = host.rpartition(":")
    name = (name if port.isdecimal() and name else host).removeprefix("[").removesuffix("]").lower()
    if name in _LOOPBACK or name == listens_on.lower():
        return True
    if listens_on in _LOOPBACK:
        return False
    return _is_address(name) or name == socket.gethostname().lower()


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
