"""What a look at a server asks, by any client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Rows(Protocol):
    """Those that a statement gave: numbers and flags as such, all else as texts."""

    def fetchone(self) -> tuple[Any, ...] | None: ...

    def fetchall(self) -> list[tuple[Any, ...]]: ...


class Connection(Protocol):
    """A connection where each statement commits. Errors of a server have its code as `sqlstate`."""

    def execute(self, query: str | bytes, params: Sequence[Any] | None = None, /) -> Rows:
        """`%s` stands for the parameters."""
        ...
