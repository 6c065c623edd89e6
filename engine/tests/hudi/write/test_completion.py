"""The completing write is sent only by whom others still believe: lease and heartbeat in time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.errors import ConflictError
from tideline.heartbeat_limits import HeartbeatLimits
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant import Action, Instant
from tideline.hudi.write.completion import LEASE_MARGIN_S, InstantCompletion
from tideline.lock_timing import LockTiming
from tideline.storage.heartbeat import Heartbeat
from tideline.storage.lock import Lease, open_table_lock
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
    requested = hoodie.timelines.create_requested(hoodie.next_time(), Action.COMMIT, b"")
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
