"""Waiting for what a server does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tideline.testing.patience import PATIENCE_S

Found = TypeVar("Found")


def eventually(probe: Callable[[], Found], what: str, *, timeout_s: float = PATIENCE_S) -> Found:
    """The first result of `probe` that is true. Raises TimeoutError naming `what` is missing."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not after {timeout_s:g} s: {what}")
        time.sleep(0.05)
