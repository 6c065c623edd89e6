"""Heartbeats: renewing, expiring, and how others see them."""

import os
import time
from pathlib import Path

import pytest

from tideline.clock import SystemClock
from tideline.errors import StorageUnavailableError
from tideline.heartbeat_limits import HeartbeatLimits
from tideline.storage.heartbeat import (
    Heartbeat,
    heartbeat_age_ms,
    heartbeat_writer,
    is_heartbeat_dead,
)
from tideline.storage.local.store import LocalStore
from tideline.storage.location import StoreLocation
from tideline.storage.memory.store import MemoryStore
from tideline.testing.fake_clock import FakeClock
from tideline.testing.faulty_store import FaultPlan, FaultyStore
from tideline.testing.patience import PATIENCE_S

INSTANT = "20250101120000000"
LIMITS = HeartbeatLimits(interval_s=60, tolerable_misses=2)
PATH = f".hoodie/.heartbeat/{INSTANT}"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(request: pytest.FixtureRequest, clock: FakeClock) -> FaultyStore:
    name = f"heartbeat-{id(request.node)}"
    request.addfinalizer(lambda: MemoryStore.forget(name))
    return FaultyStore(MemoryStore(name, clock=clock))


def is_dead(store: FaultyStore, clock: FakeClock) -> bool:
    return is_heartbeat_dead(store, INSTANT, clock, LIMITS)


def test_without_a_name_it_is_an_empty_object_for_as_long_as_the_block(
    store: FaultyStore, clock: FakeClock
) -> None:
    with Heartbeat(store, INSTANT, clock, LIMITS) as heartbeat:
        assert store.get(PATH) == b""
        assert not heartbeat.is_expired()
        assert not is_dead(store, clock)
    assert store.head(PATH) is None


def test_it_carries_its_writers_name_until_that_is_withdrawn(
    store: FaultyStore, clock: FakeClock
) -> None:
    with Heartbeat(store, INSTANT, clock, LIMITS, writer="people-ingest-1/6f1c") as heartbeat:
        assert heartbeat_writer(store, INSTANT) == "people-ingest-1/6f1c"
        heartbeat.withdraw_name()
        assert heartbeat_writer(store, INSTANT) == ""
        assert heartbeat.renew()
        assert heartbeat_writer(store, INSTANT) == ""
    assert heartbeat_writer(store, INSTANT) == ""


def test_a_missing_heartbeat_is_dead(store: FaultyStore, clock: FakeClock) -> None:
    assert heartbeat_age_ms(store, INSTANT, clock) is None
    assert is_dead(store, clock)
    assert Heartbeat(store, INSTANT, clock, LIMITS).is_expired()


def test_others_call_it_dead_only_after_the_tolerable_misses(
    store: FaultyStore, clock: FakeClock
) -> None:
    store.put(PATH, b"")
    clock.advance(120)
    assert heartbeat_age_ms(store, INSTANT, clock) == 120_000
    assert not is_dead(store, clock)
    clock.advance(0.001)
    assert is_dead(store, clock)


def test_a_clock_behind_the_store_sees_a_young_heartbeat(
    store: FaultyStore, clock: FakeClock
) -> None:
    store.put(PATH, b"")
    clock.step_wall(-3600)
    assert heartbeat_age_ms(store, INSTANT, clock) == 0


def test_it_is_renewed_in_the_background(store: FaultyStore, clock: FakeClock) -> None:
    with Heartbeat(store, INSTANT, clock, HeartbeatLimits(0.4, 10_000)) as heartbeat:
        for _ in range(3):
            clock.advance(100)
            deadline_s = time.monotonic() + PATIENCE_S
            while heartbeat_age_ms(store, INSTANT, clock) != 0:
                assert time.monotonic() < deadline_s
                time.sleep(0.01)
        assert not heartbeat.is_expired()


def test_failed_renewals_are_tolerated_until_expiry(store: FaultyStore, clock: FakeClock) -> None:
    heartbeat = Heartbeat(store, INSTANT, clock, LIMITS)
    with heartbeat:
        store.plan = FaultPlan(unavailable_calls=frozenset(range(1, 1000)))
        clock.advance(60)
        assert heartbeat.renew()
        clock.advance(60)
        assert heartbeat.renew()
        assert not heartbeat.is_expired()
        store.plan = FaultPlan()
        assert heartbeat.renew()
        clock.advance(120)
        assert not heartbeat.is_expired()


def test_an_expired_heartbeat_stays_expired(store: FaultyStore, clock: FakeClock) -> None:
    with Heartbeat(store, INSTANT, clock, LIMITS) as heartbeat:
        clock.advance(120.001)
        assert not heartbeat.renew()
        assert heartbeat.is_expired()
        assert is_dead(store, clock)
        clock.step_wall(-3600)
        assert heartbeat.is_expired()


def test_a_machine_that_slept_notices(store: FaultyStore, clock: FakeClock) -> None:
    """The monotonic clock stands still during sleep, the wall clock does not."""
    with Heartbeat(store, INSTANT, clock, LIMITS) as heartbeat:
        clock.step_wall(600)
        assert heartbeat.is_expired()


def test_starting_without_a_store_fails(store: FaultyStore, clock: FakeClock) -> None:
    store.plan = FaultPlan(unavailable_calls=frozenset({1}))
    heartbeat = Heartbeat(store, INSTANT, clock, LIMITS)
    with pytest.raises(StorageUnavailableError):
        heartbeat.start()
    assert heartbeat.is_expired()


def test_stopping_without_a_store_is_not_an_error(store: FaultyStore, clock: FakeClock) -> None:
    heartbeat = Heartbeat(store, INSTANT, clock, LIMITS)
    heartbeat.start()
    store.plan = FaultPlan(unavailable_calls=frozenset(range(1, 1000)))
    heartbeat.stop()
    heartbeat.stop()


def test_the_age_on_a_local_folder_is_the_files(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    with Heartbeat(store, INSTANT, SystemClock()):
        old_s = time.time() - 1000
        os.utime(tmp_path / PATH, (old_s, old_s))
        age_ms = heartbeat_age_ms(store, INSTANT, SystemClock())
        assert age_ms is not None
        assert 1_000_000 <= age_ms < 1_060_000


@pytest.mark.minio
def test_a_heartbeat_on_s3_is_young(s3_location: StoreLocation) -> None:
    store = s3_location.open()
    with Heartbeat(store, INSTANT, SystemClock()):
        age_ms = heartbeat_age_ms(store, INSTANT, SystemClock())
        assert age_ms is not None
        assert age_ms < 10_000
    assert heartbeat_age_ms(store, INSTANT, SystemClock()) is None


def test_what_lapses_stays_until_it_is_old(store: FaultyStore, clock: FakeClock) -> None:
    """Something of the writer may still be on its way, so no writer may undo it yet."""
    heartbeat = Heartbeat(store, INSTANT, clock, LIMITS)
    heartbeat.start()
    heartbeat.lapse()
    assert store.head(PATH) is not None
    assert not is_dead(store, clock)
    clock.advance(LIMITS.silent_s_max + 1)
    assert is_dead(store, clock)
