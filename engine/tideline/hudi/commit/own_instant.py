"""One instant of this process, from the moment it is pending to its completion or rollback.

Writes and services share it. What they do between, and what they check before they complete, is
theirs (tideline.hudi.write.transaction, tideline.hudi.services.service_transaction).

1. `request` makes a new requested instant, `take_on` makes an inflight one of a plan: heartbeat
   first, so that no process ever sees an instant of a living process without one.
2. `to_inflight`, before a data file exists.
3. `complete` under the lock, then `tidy_up`: markers and heartbeat go.
4. `settle` after a failure: what became of the completing request, if one was sent.

What a death leaves. In 1, after the heartbeat: a heartbeat that no process renews, which the next
writer sweeps away. From then to 3: a pending instant that readers ignore, with a heartbeat that
lapses. After the completed object is there: a visible commit, and markers and heartbeat, swept
later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tideline.heartbeat_limits import HeartbeatLimits
from tideline.hudi.commit.completion import (
    CommitState,
    InstantCompletion,
    require_alive,
    require_lease,
)
from tideline.hudi.commit.outcome import Unknown
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.heartbeat import Heartbeat, delete_heartbeat
from tideline.storage.lock import Guard, Lease

T = TypeVar("T")


class OwnInstant:
    """An instant of this process with its heartbeat and the completing write that ends it."""

    def __init__(
        self, table: HoodieTable, instant: Instant, heartbeat: Heartbeat, *, settle_s: float
    ) -> None:
        self.instant = instant
        """The instant in the state that this process brought it to."""
        self._table = table
        self._heartbeat = heartbeat
        self._completion = InstantCompletion(table, heartbeat, settle_s=settle_s)

    @classmethod
    def request(
        cls,
        table: HoodieTable,
        time: InstantTime,
        action: Action,
        body: bytes,
        *,
        heartbeat: HeartbeatLimits,
        settle_s: float,
        lease: Lease,
    ) -> OwnInstant:
        """Begin an instant. Raises ConflictError when the lease ran out, or another process made
        the same one."""
        started = _started(table, time, heartbeat)
        try:
            require_lease(lease, table, time)
            requested = table.timelines.create_requested(time, action, body)
        except BaseException:
            started.stop()
            raise
        return cls(table, requested, started, settle_s=settle_s)

    @classmethod
    def take_on(
        cls,
        table: HoodieTable,
        requested: Instant,
        *,
        heartbeat: HeartbeatLimits,
        settle_s: float,
    ) -> OwnInstant:
        """Begin to run a plan. Raises ConflictError when another process runs it already."""
        delete_heartbeat(table.store, str(requested.time))
        started = _started(table, requested.time, heartbeat)
        try:
            inflight = table.timelines.to_inflight(requested)
        except BaseException:
            started.stop()
            raise
        return cls(table, inflight, started, settle_s=settle_s)

    @property
    def time(self) -> InstantTime:
        return self.instant.time

    @property
    def is_expired(self) -> bool:
        """Whether others may have taken this process for dead at some time."""
        return self._heartbeat.is_expired()

    @property
    def is_sent(self) -> bool:
        """Whether a request to complete the instant was sent and not refused."""
        return self._completion.is_sent

    @property
    def may_still_take_place(self) -> bool:
        """Whether the completed object may still appear in the store."""
        return self._completion.may_still_take_place

    def to_inflight(self, body: bytes = b"") -> None:
        """Say what is going to be written. No data file may exist before."""
        self.instant = self._table.timelines.to_inflight(self.instant, body)

    def require_alive(self) -> None:
        """Raise ConflictError when others may take this process for dead."""
        require_alive(self._heartbeat, self._table, self.time)

    def guard(self, lease: Lease) -> Guard:
        """Raises ConflictError when others may have taken the lock, or this process for dead."""

        def require_both() -> None:
            self.require_alive()
            require_lease(lease, self._table, self.time)

        return require_both

    def completed_now(self, timeline: ActiveTimeline) -> Instant:
        """The instant as it completes now; see `InstantCompletion.completed_now`."""
        return self._completion.completed_now(self.instant, timeline)

    def complete(self, completed: Instant, body: bytes, lease: Lease) -> None:
        """Make the commit visible; see `InstantCompletion.complete`."""
        self._completion.complete(self.instant, completed, body, lease)

    def tidy_up(self) -> None:
        """Remove what is not needed after the commit; never raises errors of its own."""
        self._completion.tidy_up(self.time)

    def settle(
        self, look: Callable[[], T | CommitState], *, patiently: bool = True
    ) -> T | Unknown | None:
        """Find out what became of a failed attempt; see `InstantCompletion.settle`."""
        return self._completion.settle(self.time, look, patiently=patiently)

    def lapse(self) -> None:
        """Let the heartbeat be: it may be that of another process by now."""
        self._heartbeat.lapse()


def _started(table: HoodieTable, time: InstantTime, limits: HeartbeatLimits) -> Heartbeat:
    heartbeat = Heartbeat(table.store, str(time), table.clock, limits, writer=table.writer)
    heartbeat.start()
    return heartbeat
