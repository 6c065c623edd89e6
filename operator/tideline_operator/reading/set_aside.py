"""Tables whose reading ended a process or took too long: first alone, then set aside.

1. A process that reads several tables ends, or is ended: each of its tables is a suspect, and read
   next in a process of its own.
2. One that ends that as well is set aside: it is not read for a while, which grows with each time.
   Tables beside it are read as before.
3. A read that ends well clears the suspicion. A change of what is declared does, too: a table that
   was set aside is read at once, alone.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from tideline.backoff import doubled
from tideline.clock import Clock
from tideline_operator.resources.lake_table import LakeTable

FIRST_S = 60.0
LAST_S = 3_600.0

Subject = tuple[str, ...]
"""What is read: a table, the place of a catalog, a bucket."""


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A subject that is read alone. It was set aside `times`; now until `until_s`, for `words`."""

    declared: LakeTable
    times: int = 0
    until_s: float = 0.0
    words: str = ""


class SetAside:
    """The suspects. For any number of threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._suspects: dict[Subject, _Suspect] = {}

    def refusal(self, subject: Subject, declared: LakeTable) -> str | None:
        """Why the subject is not read now; None when it may be."""
        with self._lock:
            known = self._suspects.get(subject)
            if known is None or known.declared.spec != declared.spec:
                return None
            left_s = known.until_s - self._clock.monotonic_s()
            return known.words if left_s > 0 else None

    def is_alone(self, subject: Subject) -> bool:
        """Whether the subject is to be read in a process of its own."""
        with self._lock:
            return subject in self._suspects

    def suspect(self, subject: Subject, declared: LakeTable) -> None:
        """The process that read the subject, and others perhaps, has ended."""
        with self._lock:
            self._suspects.setdefault(subject, _Suspect(declared))

    def set_aside(self, subject: Subject, declared: LakeTable, words: str) -> None:
        """A process of its own has ended over the subject, or had to be ended."""
        with self._lock:
            known = self._suspects.get(subject)
            if known is None or known.declared.spec != declared.spec:
                known = _Suspect(declared)
            delay_s = doubled(FIRST_S, known.times, LAST_S)
            self._suspects[subject] = replace(
                known,
                declared=declared,
                times=known.times + 1,
                until_s=self._clock.monotonic_s() + delay_s,
                words=f"{words}; it is read again in {delay_s / 60:.0f} min, or when its spec "
                "changes",
            )

    def clear(self, subject: Subject) -> None:
        """The subject was read, or is not read any more."""
        with self._lock:
            self._suspects.pop(subject, None)

    @property
    def count(self) -> int:
        """Subjects that are not read now."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            return sum(suspect.until_s > now_s for suspect in self._suspects.values())
