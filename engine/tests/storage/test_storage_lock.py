"""The storage lock's lease: taking over, renewing, and lost replies at every step."""

import json
import time
from collections.abc import Callable
from functools import partial

import pytest

from tideline.errors import ConfigError, ConflictError, CorruptTableError, StorageUnavailableError
from tideline.hudi.table.settings import Settings
from tideline.lock_timing import LockTiming
from tideline.storage.memory.store import MemoryStore
from tideline.storage.object_store import VersionedBody
from tideline.storage.storage_lock import STORAGE_LOCK_PATH, StorageLock
from tideline.testing.fake_clock import FakeClock
from tideline.testing.faulty_store import FaultPlan, FaultyStore, LostReply
from tideline.testing.patience import PATIENCE_S
from tideline.testing.small_table import SmallTable, batch

HUDIS = LockTiming(validity_s=300, renew_interval_s=30, outlasts_lease=False)
"""Hudi's own lease, and a wait that is as long as it says."""

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
    return StorageLock(store, clock, HUDIS)


def stored(store: MemoryStore) -> dict[str, object]:
    fields = json.loads(store.get(STORAGE_LOCK_PATH))
    assert isinstance(fields, dict)
    return fields


def another_holder(store: MemoryStore, *, valid_until_ms: int, expired: bool = False) -> None:
    fields = {"owner": OTHER_OWNER, "validUntil": valid_until_ms, "expired": expired, "new": 1}
    store.put(STORAGE_LOCK_PATH, json.dumps(fields, indent=2).encode())


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_an_expired_lock_is_taken_over(lock: StorageLock, memory: MemoryStore) -> None:
    another_holder(memory, valid_until_ms=9_999_999, expired=True)
    lease = lock.acquire(timeout_s=0)
    assert stored(memory)["owner"] == lease.owner
    lease.release()


def test_a_silent_holder_is_taken_over_only_after_the_drift(
    lock: StorageLock, memory: MemoryStore, clock: FakeClock
) -> None:
    another_holder(memory, valid_until_ms=clock.now_ms() + 10_000)
    clock.advance(10.5)
    with pytest.raises(ConflictError, match=f"held by {OTHER_OWNER}"):
        lock.acquire(timeout_s=0)
    clock.advance(0.001)
    lock.acquire(timeout_s=0).release()


def test_waiting_on_the_clock_ends_with_the_holders_lease(
    lock: StorageLock, memory: MemoryStore, clock: FakeClock
) -> None:
    another_holder(memory, valid_until_ms=clock.now_ms() + 30_000)
    before_s = clock.monotonic_s()
    lock.acquire(timeout_s=60).release()
    assert 30.5 < clock.monotonic_s() - before_s < 32


def test_a_holder_that_died_is_taken_over_after_its_validity(
    memory: MemoryStore, clock: FakeClock
) -> None:
    dead = FaultyStore(memory)
    lease = StorageLock(dead, clock, HUDIS).acquire(timeout_s=0)
    dead.plan = FaultPlan(crash_before_write=len(dead.writes) + 1)
    other = StorageLock(memory, clock, HUDIS)
    clock.advance(290)
    with pytest.raises(ConflictError):
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
    with pytest.raises(CorruptTableError, match=r"table_lock\.json"):
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
        another_holder(memory, valid_until_ms=0, expired=True)
    store.plan = FaultPlan(lost_reply_of_conditional_write=1, lost_reply=lost_reply)
    with pytest.raises((ConflictError, StorageUnavailableError)):
        lock.acquire(timeout_s=0)
    ghost = stored(memory)["owner"]
    assert stored(memory)["expired"] is False
    with pytest.raises(ConflictError, match=f"held by {ghost}"):
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
    with pytest.raises(StorageUnavailableError):
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
    another_holder(memory, valid_until_ms=5_000_000)
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


def test_a_lease_that_ended_is_lost_even_if_no_other_process_took_it(
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
    with pytest.raises(StorageUnavailableError):
        lock.acquire(timeout_s=600)
    assert clock.monotonic_s() - before_s < 60


def test_a_short_outage_is_waited_out(lock: StorageLock, store: FaultyStore) -> None:
    store.plan = FaultPlan(unavailable_calls=frozenset({1, 2}))
    lock.acquire(timeout_s=60).release()


def test_the_lease_is_renewed_in_the_background(
    store: FaultyStore, memory: MemoryStore, clock: FakeClock
) -> None:
    def is_valid_until(time_ms: int) -> bool:
        return stored(memory)["validUntil"] == time_ms

    lease = StorageLock(store, clock, LockTiming(300, renew_interval_s=0.2)).acquire(timeout_s=0)
    for round_number in range(1, 4):
        clock.advance(100)
        wait_until(partial(is_valid_until, 1_300_000 + round_number * 100_000))
    assert lease.is_held()
    lease.release()
    clock.advance(1000)
    assert stored(memory)["expired"] is True


def test_a_killed_holders_lease_is_outlasted_by_a_writer_that_waits(
    memory: MemoryStore, clock: FakeClock
) -> None:
    """Even that of an engine whose lease is longer than the writer would wait."""
    another_holder(memory, valid_until_ms=clock.now_ms() + 290_000)
    began_s = clock.monotonic_s()
    StorageLock(memory, clock).acquire(timeout_s=60).release()
    assert 290 < clock.monotonic_s() - began_s < 293


class RenewingStore(FaultyStore):
    """A lock whose holder is alive: each look at it finds it renewed when `interval_s` are over."""

    def __init__(self, memory: MemoryStore, clock: FakeClock, interval_s: float) -> None:
        super().__init__(memory)
        self._memory, self._clock, self._interval_s = memory, clock, interval_s
        self._renewed_s = -interval_s

    def get_versioned(self, path: str) -> VersionedBody:
        if self._clock.monotonic_s() - self._renewed_s >= self._interval_s:
            self._renewed_s = self._clock.monotonic_s()
            another_holder(self._memory, valid_until_ms=self._clock.now_ms() + 300_000)
        return super().get_versioned(path)


def test_a_holder_that_renews_is_waited_for_no_longer_than_its_next_renewal(
    memory: MemoryStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    began_s = clock.monotonic_s()
    with pytest.raises(
        ConflictError, match=rf"held by {OTHER_OWNER} until 1970-01-01T00:2.*waited"
    ):
        StorageLock(RenewingStore(memory, clock, 30), clock).acquire(timeout_s=60)
    assert 60 <= clock.monotonic_s() - began_s < 60 + 30 + 2
    assert f"waiting for the table lock of {memory.uri}, held by {OTHER_OWNER}" in caplog.text


def test_a_lease_without_an_end_in_sight_is_not_waited_for(
    memory: MemoryStore, clock: FakeClock
) -> None:
    another_holder(memory, valid_until_ms=clock.now_ms() + 86_400_000)
    began_s = clock.monotonic_s()
    with pytest.raises(ConflictError):
        StorageLock(memory, clock).acquire(timeout_s=60)
    assert clock.monotonic_s() - began_s < 62


def test_a_writer_gets_through_after_one_that_was_killed_in_the_lock() -> None:
    """With the default settings: the lease of the dead one ends while the next one waits."""
    small = SmallTable.in_memory()
    small.write("insert", batch(range(2), 1))
    dead = FaultyStore(small.store())
    small.lake(dead).hoodie_table.lock().acquire(timeout_s=1)
    dead.is_dead = True
    began_s = small.clock.monotonic_s()
    assert small.write("insert", batch([2], 1)).rows_inserted == 1
    assert 55 < small.clock.monotonic_s() - began_s < 65
    small.forget()


PREFIX = "hoodie.write.lock."


@pytest.mark.parametrize(
    ("settings", "timing"),
    [
        ({}, LockTiming(60, 6, 60, 1, outlasts_lease=True)),
        ({"storage.validity.timeout.secs": "300"}, LockTiming(300, 30)),
        (
            {"storage.validity.timeout.secs": "100", "storage.renew.interval.secs": "5"},
            LockTiming(100, 5),
        ),
        ({"storage.heartbeat.poll.secs": "3"}, LockTiming(60, 3)),
        ({"wait_time_ms": "5000"}, LockTiming(wait_s=5, outlasts_lease=False)),
        (
            {"wait_time_ms": "60000", "client.num_retries": "50"},
            LockTiming(wait_s=51 * 60 + 50 * 5, outlasts_lease=False),
        ),
        (
            {"client.num_retries": "1", "client.wait_time_ms_between_retry": "500"},
            LockTiming(wait_s=120.5),
        ),
        ({"wait_time_ms_between_retry": "250"}, LockTiming(poll_s_max=0.25)),
        ({"num_retries": "3"}, LockTiming()),
    ],
)
def test_hudis_settings_of_its_lock_are_honoured(
    settings: dict[str, str], timing: LockTiming
) -> None:
    given = {f"{PREFIX}{name}": text for name, text in settings.items()}
    assert Settings(given).lock_timing() == timing


@pytest.mark.parametrize(
    "settings",
    [
        {"storage.validity.timeout.secs": "9"},
        {"storage.renew.interval.secs": "7"},
        {"storage.validity.timeout.secs": "60", "storage.renew.interval.secs": "0"},
        {"wait_time_ms": "-1"},
    ],
)
def test_a_lease_of_too_few_renewals_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"hoodie\.write\.lock"):
        Settings({f"{PREFIX}{name}": text for name, text in settings.items()}).lock_timing()


def test_a_table_keeps_the_timing_of_its_lock_in_its_properties() -> None:
    lease = {f"{PREFIX}storage.validity.timeout.secs": "120"}
    small = SmallTable.in_memory(lease)
    with small.lake().hoodie_table.lock().acquire(timeout_s=1) as held:
        assert 115 < held.remaining_s() <= 120
    assert small.lake().writer.config_for_rows(None).lock_timing.validity_s == 120
    small.forget()
