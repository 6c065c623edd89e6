"""What a launcher is: start an operation, hear how it goes, end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import OperationResult


@dataclass(frozen=True, slots=True)
class Progressed:
    """An operation says what it is doing."""

    operation_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """An operation has ended, well or not."""

    result: OperationResult


@dataclass(frozen=True, slots=True)
class Died:
    """Whoever carried the operation out is gone without an answer."""

    operation_id: str
    message: str


LauncherEvent = Progressed | Finished | Died


class Launcher(Protocol):
    """Carries out operations somewhere else."""

    def start(self, operation: Operation) -> None:
        """Begin. Starting one that runs already changes nothing."""
        ...

    @property
    def running(self) -> frozenset[str]:
        """Ids of the operations that have been started and not reported ended."""
        ...

    def next_event(self, timeout_s: float) -> LauncherEvent | None:
        """The next thing that happened, or None when nothing did in time."""
        ...

    def abandon(self) -> None:
        """Give up what runs, undoing it if there is time."""
        ...

    def close(self) -> None:
        """End everything."""
        ...
