"""Completing an instant exactly once, even if replies are lost.

1. The completing write is a conditional create with one token for all its attempts. While the lock
   is held and the heartbeat is alive it is repeated until the store answers: an attempt that took
   place counts as ours.
2. Once the lock is lost, `settle` asks what became of the instant, and has it completed under a new
   lock, or undone, as soon as the store answers; until then the heartbeat continues.
3. If the store stays away for `settle_s`, the outcome is Unknown. A request may still be on its
   way, so that nothing of the instant may be undone; its heartbeat lapses, and who finds the
   instant pending after that rolls it back.

A folder has no requests on their way: as soon as it can be read the outcome is known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from itertools import count
from typing import TypeVar
from uuid import uuid4

from tideline.errors import (
    ConflictError,
    ObjectNotFoundError,
    StorageUnavailableError,
    TidelineError,
)
from tideline.hudi.commit.outcome import Unknown
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.markers import delete_markers
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.retry import RetryPolicy
from tideline.storage.heartbeat import Heartbeat
from tideline.storage.lock import Lease

_log = logging.getLogger(__name__)
T = TypeVar("T")

LEASE_MARGIN_S = 5.0
"""What the lock protects needs this much left of its lease: longer than one PUT should take."""

SETTLE_S = 60.0
"""How long an unknown outcome is asked about before the caller is left with it."""

RETRIES = RetryPolicy(retries=2, wait_ms_min=200, wait_ms_max=5_000)


class CommitState(Enum):
    """What one look at a failed attempt found, when it was not committed after all."""

    UNDONE = "undone"
    """Nothing of it is visible, or will be."""
    OPEN = "open"
    """It is still pending, and a request to complete it may still be on its way."""


class InstantCompletion:
    """The completing write of one pending instant, and what is known of its fate."""

    def __init__(
        self, table: HoodieTable, heartbeat: Heartbeat, *, settle_s: float = SETTLE_S
    ) -> None:
        self._table = table
        self._heartbeat = heartbeat
        self._settle_s = settle_s
        self._settled_by_s: float | None = None
        self._token = uuid4().hex
        self._sent: list[bytes] = []
        self._sent_as: Instant | None = None
        self.is_sent = False
        """Whether a request to complete the instant was sent and not refused."""

    @property
    def may_still_take_place(self) -> bool:
        """Whether the completed object may still appear; nothing is on its way to a folder."""
        return self.is_sent and not self._is_local

    def completed_now(self, pending: Instant, timeline: ActiveTimeline) -> Instant:
        """`pending` as it completes now, by the timeline as it is under the lock.

        Where its name says when, a request that may be on its way fixes that: another name would be
        a second object. Raises ConflictError once something came after it, for it would appear
        where others have looked already; its fate is open until that request has lapsed.
        """
        sent = self._sent_as
        if sent is None or sent.completion_time is None or not self.may_still_take_place:
            return self._table.instants.completed_now(pending, timeline)
        newest = timeline.newest_time()
        if newest is not None and newest > sent.completion_time:
            raise ConflictError(
                "others continued before it was known whether this instant completed",
                table=self._table.location.uri,
                instant=pending,
                path=self._table.timelines.path(sent),
            )
        return sent

    def complete(self, pending: Instant, completed: Instant, body: bytes, lease: Lease) -> None:
        """Create the completed object.

        Raises ConflictError when the heartbeat or the lease ran out, or another process completed
        the instant or took it away; StorageUnavailableError when the store went away. Only `settle`
        knows what either means once `is_sent`. May be called again under another lease.
        """
        require_alive(self._heartbeat, self._table, pending.time)
        self._heartbeat.withdraw_name()
        require_lease(lease, self._table, pending.time)
        for attempt in count(1):
            try:
                self._create(pending, completed, body)
                return
            except StorageUnavailableError:
                has_time = not self._heartbeat.is_expired() and has_lease(lease)
                is_open = self.may_still_take_place
                if not has_time or not self._may_repeat(attempt, is_open=is_open):
                    raise
                self._table.clock.sleep(RETRIES.wait_s(attempt))

    def settle(
        self, instant: InstantTime, look: Callable[[], T | CommitState], *, patiently: bool = True
    ) -> T | Unknown | None:
        """Find out what became of a failed attempt at the instant; end its heartbeat.

        `look` finds the commit that took place after all, or has the attempt undone. It is called
        again while the store is away: a few times, or until an outcome that may be a commit is
        settled, for `settle_s` at most; without patience only once. None when the attempt is
        undone, or was never sent. Never raises errors of its own.
        """
        reason = "it does not answer"
        attempt = 0
        try:
            while True:
                attempt += 1
                was_sent = self.is_sent
                try:
                    found = look()
                    if not isinstance(found, CommitState):
                        return found
                    if found is CommitState.UNDONE:
                        self.is_sent = False
                        return None
                    reason = "it answers again, and the instant is still pending"
                except TidelineError as error:
                    _log.warning("cannot settle what became of %s: %s", instant, error)
                    reason = error.message
                    if not was_sent and not isinstance(error, StorageUnavailableError):
                        return None
                is_over = not self._may_repeat(attempt, is_open=self.is_sent)
                if is_over or not patiently:
                    return Unknown(instant, reason) if self.is_sent else None
                self._table.clock.sleep(RETRIES.wait_s(attempt))
        finally:
            if self.is_sent:
                self._heartbeat.lapse()
            else:
                self._heartbeat.stop()

    def tidy_up(self, instant: InstantTime) -> None:
        """The commit is visible, so nothing may fail any more; the next writer sweeps the rest."""
        try:
            delete_markers(self._table.store, instant)
        except TidelineError as error:
            _log.warning("cannot remove markers, the next writer will: %s", error)
        self._heartbeat.stop()

    @property
    def _is_local(self) -> bool:
        return self._table.store.local_path("") is not None

    def _create(self, pending: Instant, completed: Instant, body: bytes) -> None:
        timelines = self._table.timelines
        try:
            timelines.require_inflight(pending)
            self.is_sent = True
            self._sent.append(body)
            self._sent_as = completed
            timelines.publish(completed, body, self._token)
        except ConflictError:
            if self._reads_back(completed):
                return
            self.is_sent = False
            raise

    def _may_repeat(self, attempt: int, *, is_open: bool) -> bool:
        """Whether to ask once more: a few times, or while the outcome is open for `settle_s`."""
        if not is_open:
            return attempt <= RETRIES.retries
        now_s = self._table.clock.monotonic_s()
        if self._settled_by_s is None:
            self._settled_by_s = now_s + self._settle_s
        return now_s < self._settled_by_s

    def _reads_back(self, completed: Instant) -> bool:
        try:
            return self._table.timelines.read(completed) in self._sent
        except ObjectNotFoundError:
            return False


def require_alive(heartbeat: Heartbeat, table: HoodieTable, instant: InstantTime) -> None:
    """Raise ConflictError when others may take this process for dead."""
    if heartbeat.is_expired():
        raise ConflictError(
            "this writer's heartbeat expired, so others may have rolled it back; write again",
            table=table.location.uri,
            instant=instant,
        )


def require_lease(lease: Lease, table: HoodieTable, instant: InstantTime) -> None:
    """Raise ConflictError when the table lock is about to be taken by others."""
    if not has_lease(lease):
        raise ConflictError(
            "the lease on the table lock ran out; write again",
            table=table.location.uri,
            instant=instant,
        )


def has_lease(lease: Lease) -> bool:
    """Whether the lock is held for long enough."""
    return lease.is_held() and lease.remaining_s() > LEASE_MARGIN_S
