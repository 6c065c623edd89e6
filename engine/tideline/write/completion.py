"""Completing an instant exactly once, whatever happens to the replies.

The reply to the completing write may be lost: the write is repeated and the object read back. If
the store stays away even then, the request may still be on its way, so that nothing of the instant
may be undone; its heartbeat lapses, and who finds the instant pending after that rolls it back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar
from uuid import uuid4

from tideline.errors import Conflict, ObjectNotFound, StorageUnavailable, TidelineError
from tideline.storage.heartbeat import Heartbeat
from tideline.storage.lock import Lease
from tideline.table.hoodie_table import HoodieTable
from tideline.table.markers import delete_markers
from tideline.timeline.instant import Instant, State
from tideline.timeline.instant_time import InstantTime

_log = logging.getLogger(__name__)
T = TypeVar("T")

LEASE_MARGIN_S = 5.0
"""What the lock protects needs this much left of its lease: longer than one PUT should take."""

ATTEMPTS = 3
RETRY_S = 0.2


class InstantCompletion:
    """The completing write of one pending instant, and what is known of its fate."""

    def __init__(self, table: HoodieTable, heartbeat: Heartbeat) -> None:
        self._table = table
        self._heartbeat = heartbeat
        self.is_sent = False
        """Whether a request to complete the instant was sent and not refused."""

    @property
    def may_still_take_place(self) -> bool:
        """Whether the completed object may still appear; nothing is on its way to a folder."""
        return self.is_sent and self._table.store.local_path("") is None

    def complete(self, pending: Instant, body: bytes, lease: Lease) -> None:
        """Create the completed object.

        Raises Conflict when the heartbeat or the lease ran out, or another process completed the
        instant or took it away; StorageUnavailable when the store went away.
        """
        require_alive(self._heartbeat, self._table, pending.time)
        self._heartbeat.withdraw_name()
        require_lease(lease, self._table, pending.time)
        token = uuid4().hex
        self.is_sent = True
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._table.timelines.complete(pending, body, token)
                return
            except Conflict:
                if self._reads_back(pending.in_state(State.COMPLETED), body):
                    return
                self.is_sent = False
                raise
            except StorageUnavailable as error:
                has_time = not self._heartbeat.is_expired() and has_lease(lease)
                if attempt == ATTEMPTS or not has_time:
                    raise self._unknown_outcome(error, pending.time) from error
                self._table.clock.sleep(RETRY_S)

    def settle(self, instant: InstantTime, settle: Callable[[], T | None]) -> T | None:
        """Have a failed attempt at the instant undone and end its heartbeat; returns its outcome.

        `settle` is called again while the store is away. Never raises on its own account.
        """
        outcome = None
        try:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    outcome = settle()
                    break
                except TidelineError as error:
                    _log.warning("Cannot undo %s: %s", instant, error)
                    if attempt == ATTEMPTS or not isinstance(error, StorageUnavailable):
                        break
                    self._table.clock.sleep(RETRY_S)
        finally:
            if self.may_still_take_place:
                self._heartbeat.lapse()
            else:
                self._heartbeat.stop()
        return outcome

    def tidy_up(self, instant: InstantTime) -> None:
        """The commit is visible, so nothing may fail any more; the next writer sweeps the rest."""
        try:
            delete_markers(self._table.store, instant)
        except TidelineError as error:
            _log.warning("Cannot remove markers, the next writer will: %s", error)
        self._heartbeat.stop()

    def _unknown_outcome(
        self, error: StorageUnavailable, instant: InstantTime
    ) -> StorageUnavailable:
        if not self.may_still_take_place:
            return error
        return StorageUnavailable(
            "the store went away while the commit became visible; the timeline tells whether this "
            f"instant is completed ({error.message})",
            table=self._table.location.uri,
            instant=instant,
        )

    def _reads_back(self, completed: Instant, body: bytes) -> bool:
        try:
            return self._table.timelines.read(completed) == body
        except ObjectNotFound:
            return False


def require_alive(heartbeat: Heartbeat, table: HoodieTable, instant: InstantTime) -> None:
    """Raise Conflict when others may take this process for dead."""
    if heartbeat.is_expired():
        raise Conflict(
            "this writer's heartbeat expired, so others may have rolled it back; write again",
            table=table.location.uri,
            instant=instant,
        )


def require_lease(lease: Lease, table: HoodieTable, instant: InstantTime) -> None:
    """Raise Conflict when the table lock is about to be taken by others."""
    if not has_lease(lease):
        raise Conflict(
            "the lease on the table lock ran out; write again",
            table=table.location.uri,
            instant=instant,
        )


def has_lease(lease: Lease) -> bool:
    """Whether the lock is held for long enough."""
    return lease.is_held() and lease.remaining_s() > LEASE_MARGIN_S
