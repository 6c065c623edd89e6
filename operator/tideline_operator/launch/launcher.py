"""The interface of a launcher: start an operation, receive its events, stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import OperationResult


@dataclass(frozen=True, slots=True)
class Progressed:
    """A running operation reports progress."""

    operation_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """An operation has ended, in success or failure."""

    result: OperationResult


@dataclass(frozen=True, slots=True)
class Died:
    """The process of the operation ended without a result."""

    operation_id: str
    message: str


LauncherEvent = Progressed | Finished | Died


class Launcher(Protocol):
    """Carries out operations in another process."""

    def start(self, operation: Operation) -> None:
        """Start it. Starting a running one again changes nothing."""

    @property
    def running(self) -> frozenset[str]:
        """Ids of the operations that were started and have not ended."""

    def next_event(self, timeout_s: float) -> LauncherEvent | None:
        """The next event, or None when there is none in time."""

    def abandon(self) -> None:
        """Abort the running operation, undoing it if there is time."""

    def close(self) -> None:
        """End everything."""
