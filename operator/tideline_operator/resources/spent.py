"""What operations on a table have taken so far, kept in its status by kind of operation.

Totals only grow, and are written with the end of the operation that they count: no operation is
counted twice, whichever process sees its end.
"""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

from dataclasses import dataclass

from tideline_operator.resources.field import described
from tideline_operator.resources.schedule import Timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Totals of all operations of one kind."""

    runs: int = described("Operations that ended.", default=0, always_written=True)
    failures: int = described("Those that failed.", default=0)
    last_failure: Timestamp | None = described("The last failure.", default=None, length_max=40)
    pod_ms: int = described("Milliseconds for which their pods ran.", default=0)
    mib_seconds: int = described("Memory of these pods, in MiB, times the seconds.", default=0)
    core_ms: int = described("Milliseconds of processor cores that their drivers took.", default=0)
    bytes_read: int = described("Bytes that they read from landing files and tables.", default=0)
    bytes_written: int = described("Bytes that they wrote.", default=0)
    requests: int = described("Requests that their drivers sent to stores.", default=0)


@dataclass(frozen=True, slots=True)
class PodUse:
    """For how long pods ran, and how much memory they held meanwhile."""

    pod_ms: int = 0
    mib_seconds: int = 0


NO_PODS = PodUse()
