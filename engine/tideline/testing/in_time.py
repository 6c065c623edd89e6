"""A call that must end: one that waits for ever fails its test, and not the whole run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")
_LIMIT_S = 20.0


def in_time(call: Callable[[], T], *, limit_s: float = _LIMIT_S) -> T:
    """What the call gives or raises. AssertionError when it has not ended after `limit_s`."""
    given: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            given.append(call())
        except BaseException as error:
            raised.append(error)

    context: Any = copy_context()
    thread = threading.Thread(target=context.run, args=(run,), daemon=True)
    thread.start()
    thread.join(limit_s)
    if raised:
        raise raised[0]
    assert given, f"it has not ended after {limit_s:g} s"
    return given[0]
