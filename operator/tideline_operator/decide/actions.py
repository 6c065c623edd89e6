"""What a plan consists of: work to start, moments to wait for, advice, obstacles."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

from tideline.ingest.operation.operation import Operation


class Priority(IntEnum):
    """Which operation goes first; the lowest number."""

    CREATE = 0
    ROLLBACK = 1
    RESTORE = 2
    SAVEPOINT = 3
    URGENT_SERVICE = 4
    INGEST = 5
    SERVICE = 6


class WaitKind(Enum):
    """What a wait is for."""

    POLL = "poll"
    SETTLE = "settle"
    RETRY = "retry"
    HEARTBEAT = "heartbeat"
    WINDOW = "window"


@dataclass(frozen=True, slots=True)
class Start:
    """Carry out an operation now; `attempt` counts from 1.

    `rate` is what a service is expected to save per core-second (`service_ranking`), None where
    that is not known, or it is no service.
    """

    operation: Operation
    priority: Priority
    reason: str
    attempt: int = 1
    rate: float | None = None

    def __str__(self) -> str:
        return f"{self.operation.title}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do about `subject` before `until_ms`."""

    subject: str
    kind: WaitKind
    until_ms: int
    reason: str
    operation_id: str | None = None

    def __str__(self) -> str:
        return f"{self.subject}: {self.reason}" if self.subject else self.reason


@dataclass(frozen=True, slots=True)
class Blocked:
    """An obstacle that only a person, or a change of the spec, can remove; `reason` is one word.

    `exit_code` is what `tideline run --once` ends with because of it.
    """

    reason: str
    message: str
    subject: str = ""
    exit_code: int = 0

    def __str__(self) -> str:
        return f"{self.subject}: {self.message}" if self.subject else self.message


@dataclass(frozen=True, slots=True)
class Advise:
    """Something that is due, for which only advice was asked."""

    subject: str
    reason: str

    def __str__(self) -> str:
        return f"{self.subject} is due: {self.reason}"


PlannedAction = Start | Wait | Blocked | Advise
