"""The completing write is sent only by whom others still believe: lease and heartbeat in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tideline.errors import ConflictError, StorageUnavailableError
from tideline.heartbeat_limits import HeartbeatLimits
from tideline.hudi.commit.completion import LEASE_MARGIN_S, InstantCompletion
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant import Action, Instant
from tideline.lock_timing import LockTiming
from tideline.storage.heartbeat import Heartbeat
from tideline.storage.lock import Lease, open_table_lock
from tideline.storage.memory.store import MemoryStore
from tideline.storage.object_store import AlreadyExists, Written
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

VALIDITY_S = 60.0
LIMITS = HeartbeatLimits(interval_s=10_000.0, tolerable_misses=2)
"""Nothing is renewed within a test."""


@pytest.fixture
def table() -> Iterator[SmallTable]:
    table = SmallTable.in_memory()
    table.write("insert", batch(range(4), 1))
    yield table
    table.forget()


@pytest.fixture
def hoodie(table: SmallTable) -> HoodieTable:
    return open_fresh(table.location, clock=table.clock)


@pytest.fixture
def lease(hoodie: HoodieTable) -> Iterator[Lease]:
    timing = LockTiming(validity_s=VALIDITY_S, renew_interval_s=10_000.0)
    lock = open_table_lock(hoodie.store, hoodie.clock, timing)
    with lock.acquire(timeout_s=0) as lease:
        yield lease


def complete(hoodie: HoodieTable, lease: Lease, heartbeat: Heartbeat) -> Instant:
    requested = hoodie.timelines.create_requested(hoodie.instants.next_time(), Action.COMMIT, b"")
    pending = hoodie.timelines.to_inflight(requested, b"")
    completion = InstantCompletion(hoodie, heartbeat)
    completion.complete(pending, completion.completed_now(pending, hoodie.timeline()), b"{}", lease)
    return pending


def heartbeat_of(hoodie: HoodieTable, limits: HeartbeatLimits = LIMITS) -> Heartbeat:
    heartbeat = Heartbeat(hoodie.store, "20250615160000000", hoodie.clock, limits)
    heartbeat.start()
    return heartbeat


def test_a_lease_with_time_left_completes(
    table: SmallTable, hoodie: HoodieTable, lease: Lease
) -> None:
    table.fake_clock.advance(VALIDITY_S - LEASE_MARGIN_S - 1)
    done = complete(hoodie, lease, heartbeat_of(hoodie))
    assert hoodie.timeline().completed().find(done.time) is not None


def test_a_lease_that_ends_while_the_request_is_on_its_way_does_not(
    table: SmallTable, hoodie: HoodieTable, lease: Lease
) -> None:
    """It is still held: what counts is that the request needs time as well."""
    assert LEASE_MARGIN_S >= 2
    table.fake_clock.advance(VALIDITY_S - LEASE_MARGIN_S + 1)
    assert lease.is_held()
    before = len(hoodie.timeline().completed())
    with pytest.raises(ConflictError, match="lease on the table lock ran out"):
        complete(hoodie, lease, heartbeat_of(hoodie))
    assert len(hoodie.timeline().completed()) == before


def test_a_writer_that_others_may_take_for_dead_does_not(
    table: SmallTable, hoodie: HoodieTable, lease: Lease
) -> None:
    heartbeat = heartbeat_of(hoodie, HeartbeatLimits(interval_s=5.0, tolerable_misses=2))
    heartbeat.lapse()
    table.fake_clock.advance(11)
    before = len(hoodie.timeline().completed())
    with pytest.raises(ConflictError, match="heartbeat expired"):
        complete(hoodie, lease, heartbeat)
    assert len(hoodie.timeline().completed()) == before


class AwayToCompletions(MemoryStore):
    """A store that answers no request to complete an instant while it is away."""

    is_away = True

    def put_if_absent(
        self, path: str, body: bytes, *, token: str | None = None
    ) -> Written | AlreadyExists:
        if self.is_away and path.endswith(".commit"):
            raise StorageUnavailableError("no reply", path=path)
        return super().put_if_absent(path, body, token=token)


@dataclass
class InDoubt:
    """An instant of a version 9 table whose completing request got no reply in time."""

    hoodie: HoodieTable
    store: AwayToCompletions
    completion: InstantCompletion
    pending: Instant

    @classmethod
    def of(cls, small: SmallTable) -> InDoubt:
        store = AwayToCompletions(small.location.uri.removeprefix("memory://"))
        hoodie = open_fresh(small.location, store, small.clock)
        requested = hoodie.timelines.create_requested(hoodie.instants.reserve_time(), Action.COMMIT)
        pending = hoodie.timelines.to_inflight(requested)
        made = cls(hoodie, store, InstantCompletion(hoodie, heartbeat_of(hoodie)), pending)
        with pytest.raises(StorageUnavailableError):
            made.complete()
        small.fake_clock.advance(VALIDITY_S)
        return made

    def complete(self) -> Instant:
        timing = LockTiming(validity_s=VALIDITY_S, renew_interval_s=10_000.0)
        with open_table_lock(self.store, self.hoodie.clock, timing).acquire(timeout_s=0) as lease:
            completed = self.completion.completed_now(self.pending, self.hoodie.timeline())
            self.completion.complete(self.pending, completed, b"", lease)
        return completed


@pytest.fixture
def in_doubt() -> Iterator[InDoubt]:
    small = SmallTable.in_memory(table_version=9)
    yield InDoubt.of(small)
    small.forget()


def test_an_instant_that_may_have_completed_is_completed_at_that_time(in_doubt: InDoubt) -> None:
    before = in_doubt.hoodie.timeline().newest_time()
    in_doubt.store.is_away = False
    completed = in_doubt.complete()
    assert list(in_doubt.hoodie.timeline().completed()) == [completed]
    assert before is not None
    assert completed.completion_time is not None
    late_ms = completed.completion_time.epoch_ms() - before.epoch_ms()
    assert late_ms < 1_000, "the time of the first request, a minute ago"


def test_it_is_not_completed_once_others_went_on(in_doubt: InDoubt) -> None:
    in_doubt.store.is_away = False
    hoodie = in_doubt.hoodie
    hoodie.timelines.create_requested(hoodie.instants.reserve_time(), Action.DELTACOMMIT)
    with pytest.raises(ConflictError, match="others continued"):
        in_doubt.complete()
    assert not len(hoodie.timeline().completed())
    assert in_doubt.completion.may_still_take_place


def test_an_instant_completes_once_whatever_its_name() -> None:
    small = SmallTable.in_memory(table_version=9)
    hoodie = small.lake().hoodie_table
    requested = hoodie.timelines.create_requested(hoodie.instants.reserve_time(), Action.CLEAN)
    pending = hoodie.timelines.to_inflight(requested)
    hoodie.instants.complete(pending, b"")
    with pytest.raises(ConflictError, match="already completed"):
        hoodie.instants.complete(pending, b"")
    small.forget()
