"""The storage lock's lease: taking over, renewing, and lost replies at every step."""

import json
import time
from collections.abc import Callable

import pytest

from tideline.errors import Conflict, CorruptTable, StorageUnavailable
from tideline.storage.memory import MemoryStore
from tideline.storage.storage_lock import STORAGE_LOCK_PATH, StorageLock
from tideline.testing.fake_clock import FakeClock
from tideline.testing.faulty_store import FaultPlan, FaultyStore, LostReply

LOST_REPLIES = pytest.mark.parametrize("lost_reply", [*LostReply])
OTHER_OWNER = "7b2c1f9e-0000-0000-0000-000000000000"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(now_ms=1_000_000)


@pytest.fixture
def memory(request: pytest.FixtureRequest, clock: FakeClock) -> MemoryStore:
    name = f"storage-lock-{id(request.node)}"
    request.addfinalizer(lambda: MemoryStore.forget(name))
    return MemoryStore(name, clock=clock)


@pytest.fixture
def store(memory: MemoryStore) -> FaultyStore:
    return FaultyStore(memory)


@pytest.fixture
def lock(store: FaultyStore, clock: FakeClock) -> StorageLock:
    return StorageLock(store, clock)


def stored(store: MemoryStore) -> dict[str, object]:
    fields = json.loads(store.get(STORAGE_LOCK_PATH))
    assert isinstance(fields, dict)
    return fields


def somebody_else(store: MemoryStore, *, valid_until_ms: int, expired: bool = False) -> None:
    fields = {"owner": OTHER_OWNER, "validUntil": valid_until_ms, "expired": expired, "new": 1}
    store.put(STORAGE_LOCK_PATH, json.dumps(fields, indent=2).encode())


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_an_expired_lock_is_taken_over(lock: StorageLock, memory: MemoryStore) -> None:
    somebody_else(memory, valid_until_ms=9_999_999, expired=True)
    lease = lock.acquire(timeout_s=0)
    assert stored(memory)["owner"] == lease.owner
    lease.release()


def test_a_silent_holder_is_taken_over_only_after_the_drift(
    lock: StorageLock, memory: MemoryStore, clock: FakeClock
) -> None:
    somebody_else(memory, valid_until_ms=clock.now_ms() + 10_000)
    clock.advance(10.5)
    with pytest.raises(Conflict, match=f"held by {OTHER_OWNER}"):
        lock.acquire(timeout_s=0)
    clock.advance(0.001)
    lock.acquire(timeout_s=0).release()


def test_waiting_on_the_clock_ends_with_the_holders_lease(
    lock: StorageLock, memory: MemoryStore, clock: FakeClock
) -> None:
    somebody_else(memory, valid_until_ms=clock.now_ms() + 30_000)
    before_s = clock.monotonic_s()
    lock.acquire(timeout_s=60).release()
    assert 30.5 < clock.monotonic_s() - before_s < 32


def test_a_holder_that_died_is_taken_over_after_its_validity(
    memory: MemoryStore, clock: FakeClock
) -> None:
    dead = FaultyStore(memory)
    lease = StorageLock(dead, clock).acquire(timeout_s=0)
    dead.plan = FaultPlan(crash_before_write=len(dead.writes) + 1)
    other = StorageLock(memory, clock)
    clock.advance(290)
    with pytest.raises(Conflict):
        other.acquire(timeout_s=5)
    taken = other.acquire(timeout_s=10)
    assert taken.is_held()
    assert not lease.is_held()
    taken.release()


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'{"expired":false,"validUntil":null}'])
def test_a_lock_that_cannot_be_read_is_named(
    lock: StorageLock, memory: MemoryStore, body: bytes
) -> None:
    memory.put(STORAGE_LOCK_PATH, body)
    with pytest.raises(CorruptTable, match=r"table_lock\.json"):
        lock.acquire(timeout_s=5)


@LOST_REPLIES
@pytest.mark.parametrize("exists", [False, True])
def test_a_lost_reply_to_acquiring_is_never_taken_for_a_lock(
    lock: StorageLock,
    store: FaultyStore,
    memory: MemoryStore,
    lost_reply: LostReply,
    exists: bool,
) -> None:
    """The ghost is released first; only then is the lock taken, under another owner."""
    if exists:
        somebody_else(memory, valid_until_ms=0, expired=True)
    store.plan = FaultPlan(lost_reply_of_conditional_write=1, lost_reply=lost_reply)
    with pytest.raises((Conflict, StorageUnavailable)):
        lock.acquire(timeout_s=0)
    ghost = stored(memory)["owner"]
    assert stored(memory)["expired"] is False
    with pytest.raises(Conflict, match=f"held by {ghost}"):
        lock.acquire(timeout_s=0)
    assert stored(memory) == {"expired": True, "validUntil": 1_300_000, "owner": ghost}
    lease = lock.acquire(timeout_s=0)
    assert lease.owner != ghost
    lease.release()


@LOST_REPLIES
def test_one_patient_acquire_gets_past_its_own_ghost(
    lock: StorageLock, store: FaultyStore, clock: FakeClock, lost_reply: LostReply
) -> None:
    store.plan = FaultPlan(lost_reply_of_conditional_write=1, lost_reply=lost_reply)
    before_s = clock.monotonic_s()
    with lock.acquire(timeout_s=60) as lease:
        assert lease.is_held()
    assert clock.monotonic_s() - before_s < 5


@LOST_REPLIES
def test_a_lost_reply_to_releasing_a_ghost_is_got_past(
    lock: StorageLock, store: FaultyStore, memory: MemoryStore, lost_reply: LostReply
) -> None:
    store.plan = FaultPlan(lost_reply_of_conditional_write=1)
    with pytest.raises(StorageUnavailable):
        lock.acquire(timeout_s=0)
    store.plan = FaultPlan(lost_reply_of_conditional_write=2, lost_reply=lost_reply)
    with lock.acquire(timeout_s=60) as lease:
        assert stored(memory)["owner"] == lease.owner


@LOST_REPLIES
def test_a_lost_reply_to_renewing_keeps_the_lock(
    lock: StorageLock,
    store: FaultyStore,
    memory: MemoryStore,
    clock: FakeClock,
    lost_reply: LostReply,
) -> None:
    lease = lock.acquire(timeout_s=0)
    clock.advance(100)
    store.plan = FaultPlan(lost_reply_of_conditional_write=2, lost_reply=lost_reply)
    assert lease.renew()
    # Refused: read back, adopted and renewed at once. Unavailable: at the next renewal.
    assert lease.remaining_s() == (300 if lost_reply is LostReply.REFUSED else 200)
    assert lease.renew()
    assert lease.remaining_s() == 300
    assert stored(memory)["validUntil"] == 1_400_000
    lease.release()
    assert stored(memory)["expired"] is True


@LOST_REPLIES
def test_a_lost_reply_to_releasing_is_not_an_error(
    lock: StorageLock, store: FaultyStore, memory: MemoryStore, lost_reply: LostReply
) -> None:
    lease = lock.acquire(timeout_s=0)
    store.plan = FaultPlan(lost_reply_of_conditional_write=2, lost_reply=lost_reply)
    lease.release()
    assert not lease.is_held()
    assert stored(memory)["expired"] is True


def test_releasing_after_a_renewal_whose_reply_was_lost_still_releases(
    lock: StorageLock, store: FaultyStore, memory: MemoryStore
) -> None:
    lease = lock.acquire(timeout_s=0)
    store.plan = FaultPlan(lost_reply_of_conditional_write=2)
    assert lease.renew()
    lease.release()
    assert stored(memory)["expired"] is True


def test_renewing_gives_up_to_a_foreign_owner_and_leaves_it_alone(
    lock: StorageLock, memory: MemoryStore
) -> None:
    lease = lock.acquire(timeout_s=0)
    somebody_else(memory, valid_until_ms=5_000_000)
    assert not lease.renew()
    assert not lease.is_held()
    assert lease.remaining_s() == 0
    lease.release()
    assert stored(memory)["owner"] == OTHER_OWNER
    assert stored(memory)["expired"] is False


def test_renewing_gives_up_when_the_lock_object_is_gone(
    lock: StorageLock, memory: MemoryStore
) -> None:
    lease = lock.acquire(timeout_s=0)
    memory.delete(STORAGE_LOCK_PATH)
    assert not lease.renew()
    assert not lease.is_held()


def test_a_lease_that_ended_is_lost_even_if_nobody_took_it(
    lock: StorageLock, memory: MemoryStore, clock: FakeClock
) -> None:
    lease = lock.acquire(timeout_s=0)
    clock.advance(300)
    assert not lease.is_held()
    assert not lease.renew()
    clock.step_wall(-1000)
    assert not lease.is_held()
    assert stored(memory)["validUntil"] == 1_300_000


def test_the_shorter_of_both_clocks_counts(lock: StorageLock, clock: FakeClock) -> None:
    lease = lock.acquire(timeout_s=0)
    clock.advance(50)
    clock.step_wall(-1000)
    assert lease.remaining_s() == 250
    clock.step_wall(1200)
    assert lease.remaining_s() == 50
    lease.release()


def test_a_store_that_is_away_costs_the_lease_only_after_its_validity(
    lock: StorageLock, store: FaultyStore, clock: FakeClock
) -> None:
    lease = lock.acquire(timeout_s=0)
    store.plan = FaultPlan(unavailable_calls=frozenset(range(1, 1000)))
    clock.advance(200)
    assert lease.renew()
    assert lease.is_held()
    clock.advance(100)
    assert not lease.renew()
    assert not lease.is_held()
    lease.release()


def test_a_store_that_stays_away_ends_the_wait(
    lock: StorageLock, store: FaultyStore, clock: FakeClock
) -> None:
    store.plan = FaultPlan(unavailable_calls=frozenset(range(1, 1000)))
    before_s = clock.monotonic_s()
    with pytest.raises(StorageUnavailable):
        lock.acquire(timeout_s=600)
    assert clock.monotonic_s() - before_s < 60


def test_a_short_outage_is_waited_out(lock: StorageLock, store: FaultyStore) -> None:
    store.plan = FaultPlan(unavailable_calls=frozenset({1, 2}))
    lock.acquire(timeout_s=60).release()


def test_the_lease_is_renewed_in_the_background(
    store: FaultyStore, memory: MemoryStore, clock: FakeClock
) -> None:
    lease = StorageLock(store, clock, renew_interval_s=0.2).acquire(timeout_s=0)
    for round_number in range(1, 4):
        clock.advance(100)
        expected = 1_300_000 + round_number * 100_000
        wait_until(lambda expected=expected: stored(memory)["validUntil"] == expected)
    assert lease.is_held()
    lease.release()
    clock.advance(1000)
    assert stored(memory)["expired"] is True
