"""What a finished run of a service reports: in words, in numbers, and file by file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tideline.services.benefit import NO_BENEFIT, Benefit

_FAILURES_NAMED = 3


@dataclass(frozen=True, slots=True)
class ServiceReport:
    """One finished run in words and numbers. `words` is a sentence without a full stop.

    `instant` is that of the commit, or its snapshot, if it made one; `notes` are further sentences.
    `benefit` is what readers and the store save from now on, by what was really done.
    """

    words: str
    instant: Any = None
    files_read: int = 0
    bytes_read: int = 0
    files_written: int = 0
    bytes_written: int = 0
    rows_written: int = 0
    files_deleted: int = 0
    bytes_deleted: int = 0
    benefit: Benefit = NO_BENEFIT
    notes: tuple[str, ...] = ()


def left_undone(failures: Sequence[str]) -> tuple[str, ...]:
    """The first of the reasons for which a run left something undone, as notes."""
    return tuple(f"left undone: {reason}" for reason in failures[:_FAILURES_NAMED])


class Done(Protocol):
    """A finished run."""

    def report(self) -> ServiceReport:
        """What was done, summed up."""

    def to_json_object(self) -> dict[str, Any]:
        """The audit: every file and what was done with it."""
