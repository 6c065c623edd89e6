"""What `tideline check-store` refuses loses rows, as a race with the check switched off shows."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from tideline.clock import SystemClock
from tideline.errors import ConfigError, ConflictError, TidelineError
from tideline.hudi import new_table
from tideline.storage.location import StoreLocation
from tideline.storage.lock import Lease, open_table_lock
from tideline.storage.probe.report import ProbeOutcome, StorePromise
from tideline.testing.kill_storm import AT_A_SERVER
from tideline.testing.s3_peer_contract import store_report
from tideline.testing.s3_peers import PlaceAtPeer
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.store_contract import in_parallel

WRITERS = 8
ROUNDS_MAX = 40
ROUNDS_OF_A_SOUND_STORE = 3
LOCKINGS_MAX = 300
LOCKINGS_OF_A_SOUND_STORE = 20
CREATIONS = 5
EXCLUSION = {StorePromise.CREATE_RACE, StorePromise.REPLACE_RACE, StorePromise.COUNTER}
"""What a store breaks where two writers succeed at once; one race of each can miss it."""
UNSAFE = r"(would lose commits|would hold the table lock at once).* refuses"
"""What the quick look finds first is chance where each race is."""
_KEYS_OF_A_WRITE = 3


@pytest.mark.storm
@pytest.mark.parametrize("peer", ["moto", "versitygw-without-lock", "garage"])
def test_a_store_on_which_writers_do_not_exclude_each_other_is_refused_and_loses_rows(
    peer: str, place_at_peer: PlaceAtPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = place_at_peer(peer)
    found = {result.promise: result for result in store_report(location).complaints}
    broken = found.keys() & EXCLUSION
    assert broken
    for promise in broken:
        assert found[promise].outcome is ProbeOutcome.FAILED
        assert promise.cost in found[promise].message
    with pytest.raises(ConfigError, match=UNSAFE):
        SmallTable.create(location)
    monkeypatch.setattr(new_table, "probe_conditional_writes", lambda _: None)
    table = SmallTable.create(location)
    acknowledged: set[str] = set()
    for number in range(ROUNDS_MAX):
        acknowledged |= race(table, number)
        lost = acknowledged - {key for key, _ in table.values()}
        if lost:
            print(f"{len(lost)} of {len(acknowledged)} rows lost after {number + 1} rounds")
            return
    pytest.fail(f"none of {len(acknowledged)} rows was lost")


@pytest.mark.storm
def test_a_gateway_that_compares_and_then_writes_gives_the_table_lock_to_two(
    place_at_peer: PlaceAtPeer,
) -> None:
    """Objects are created once there, so that no insert is lost: what is broken is the lock."""
    location = place_at_peer("s3proxy")
    found = {result.promise: result for result in store_report(location).complaints}
    assert found[StorePromise.COUNTER].outcome is ProbeOutcome.FAILED
    assert StorePromise.CREATE_RACE not in found
    for _ in range(CREATIONS):
        with pytest.raises(ConfigError, match=r"If-Match.*Tideline refuses"):
            SmallTable.create(location)
    at_once = locked_at_once(location, LOCKINGS_MAX)
    print(f"{max(at_once)} held the lock at once after {len(at_once)} races for it")
    assert max(at_once) > 1


@pytest.mark.slow
def test_no_two_have_the_lock_on_a_sound_store(gcs_location: StoreLocation) -> None:
    assert set(locked_at_once(gcs_location, LOCKINGS_OF_A_SOUND_STORE)) == {1}


def locked_at_once(location: StoreLocation, races_max: int) -> list[int]:
    """How many of several writers got the lock of a table in each race, until it was more than
    one."""
    locks = [open_table_lock(location.open(), SystemClock()) for _ in range(WRITERS)]
    locks[0].acquire().release()
    at_once: list[int] = []

    def acquired(writer: int) -> Lease | None:
        try:
            return locks[writer].acquire(timeout_s=0)
        except ConflictError:
            return None

    while len(at_once) < races_max and max(at_once, default=0) < 2:
        leases = [lease for lease in in_parallel(acquired, WRITERS) if lease is not None]
        at_once.append(sum(lease.is_held() for lease in leases))
        for lease in leases:
            lease.release()
    return at_once


@pytest.mark.slow
def test_the_same_race_loses_nothing_on_a_sound_store(gcs_location: StoreLocation) -> None:
    table = SmallTable.create(gcs_location)
    acknowledged: set[str] = set()
    for number in range(ROUNDS_OF_A_SOUND_STORE):
        acknowledged |= race(table, number)
        assert acknowledged == {key for key, _ in table.values()}
    assert acknowledged


def race(table: SmallTable, number: int) -> set[str]:
    """Inserts of several writers at once: the keys of those that were acknowledged."""

    def insert(writer: int) -> Collection[str]:
        start = (number * WRITERS + writer) * _KEYS_OF_A_WRITE
        rows = batch(range(start, start + _KEYS_OF_A_WRITE), number)
        try:
            table.write("insert", rows, options=AT_A_SERVER)
        except TidelineError:
            # A conflict, or a table that is damaged by now: its instants are not what they were.
            return ()
        return set(rows.column("id").to_pylist())

    return set().union(*in_parallel(insert, WRITERS))
