"""How many requests this process has sent to object stores: each is time, and on a bill.

Requests that a client repeats on its own are not seen here; neither is what Spark's Java asks for.
"""

from __future__ import annotations

import threading

_lock = threading.Lock()
_sent = 0


def count_requests(count: int = 1) -> None:
    """So many more were sent."""
    global _sent
    with _lock:
        _sent += count


def requests_sent() -> int:
    """All so far."""
    return _sent
