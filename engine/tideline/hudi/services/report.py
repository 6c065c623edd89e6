"""What a finished run of a service reports: in words, in numbers, and file by file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from tideline.hudi.timeline.instant_time import InstantTime
from tideline.saving import NO_SAVING, Saving


@dataclass(frozen=True, slots=True)
class ServiceReport:
    """One finished run in words and numbers. `words` is a sentence without a full stop.

    `saving` is what readers and the store save from now on, by what was really done.
    """

    words: str
    instant: InstantTime | None = None
    bytes_read: int = 0
    files_written: int = 0
    bytes_written: int = 0
    rows_written: int = 0
    files_deleted: int = 0
    bytes_deleted: int = 0
    saving: Saving = NO_SAVING


class Done(Protocol):
    """A finished run."""

    def report(self) -> ServiceReport:
        """What was done, summed up."""

    def to_json_object(self) -> dict[str, Any]:
        """The audit: every file and what was done with it."""
