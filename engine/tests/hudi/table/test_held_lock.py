"""The table lock is held until the times given under it are past on every clock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from tideline import cli
from tideline.errors import ConflictError
from tideline.hudi.open_table import open_table
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_instants import CLOCK_SKEW_S_MAX
from tideline.hudi.table.table_lock import HELD_S_MAX
from tideline.hudi.timeline.instant import Action
from tideline.lock_timing import LockTiming
from tideline.storage.location import StoreLocation
from tideline.storage.storage_lock import STORAGE_LOCK_PATH
from tideline.testing.fake_clock import FakeClock

SCHEMA = pa.schema([("id", pa.string())])


@dataclass
class _Alarm:
    due_s: float
    action: Callable[[], None]
    is_off: bool = False


@dataclass
class AlarmedClock(FakeClock):
    """Does what is due whenever its time moves."""

    alarms: list[_Alarm] = field(default_factory=list)

    def __post_init__(self) -> None:
        FakeClock.__init__(self)

    def call_later(self, seconds: float, action: Callable[[], None]) -> Callable[[], None]:
        alarm = _Alarm(self.monotonic_s() + seconds, action)
        self.alarms.append(alarm)

        def turn_off() -> None:
            alarm.is_off = True

        return turn_off

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        for alarm in self.alarms:
            if not alarm.is_off and alarm.due_s <= self.monotonic_s():
                alarm.is_off = True
                alarm.action()


@pytest.fixture
def clock() -> AlarmedClock:
    return AlarmedClock()


@pytest.fixture
def table(clock: AlarmedClock, request: pytest.FixtureRequest) -> HoodieTable:
    location = StoreLocation.of(f"memory://{request.node.name}")
    definition = TableDefinition("orders", ("id",), schema=SCHEMA, table_version=9)
    create_table(location.open(), definition, clock)
    return open_table(location, clock)


def is_free(table: HoodieTable) -> bool:
    return bool(json.loads(table.store.get(STORAGE_LOCK_PATH))["expired"])


def owner(table: HoodieTable) -> str:
    return str(json.loads(table.store.get(STORAGE_LOCK_PATH))["owner"])


def test_nobody_waits_under_the_lock_and_others_get_it_when_all_clocks_are_past_the_time(
    table: HoodieTable, clock: AlarmedClock
) -> None:
    before_s = clock.monotonic_s()
    with table.lock().acquire():
        time = table.instants.reserve_time()
        table.timelines.create_requested(time, Action.COMMIT)
    assert clock.monotonic_s() == before_s
    assert not is_free(table)
    with pytest.raises(ConflictError, match="the table lock is held by"):
        open_table(table.location, clock).lock().acquire(timeout_s=0)
    clock.advance(CLOCK_SKEW_S_MAX)
    assert is_free(table)


def test_what_takes_as_long_as_clocks_may_differ_has_nothing_to_wait_for(
    table: HoodieTable, clock: AlarmedClock
) -> None:
    with table.lock().acquire():
        table.instants.reserve_time()
        clock.advance(CLOCK_SKEW_S_MAX)
    assert is_free(table)
    assert not clock.alarms


def test_a_lock_under_which_no_time_was_given_is_released_at_once(
    table: HoodieTable, clock: AlarmedClock
) -> None:
    with table.lock().acquire():
        pass
    assert is_free(table)
    assert not clock.alarms


def test_the_same_table_takes_it_back_without_a_request(
    table: HoodieTable, clock: AlarmedClock
) -> None:
    with table.lock().acquire():
        table.instants.reserve_time()
    first, body = owner(table), table.store.get_versioned(STORAGE_LOCK_PATH)
    clock.advance(CLOCK_SKEW_S_MAX / 2)
    with table.lock().acquire() as lease:
        assert table.store.get_versioned(STORAGE_LOCK_PATH) == body
        assert lease.is_held()
        clock.advance(CLOCK_SKEW_S_MAX)
        assert not is_free(table), "it was released while it was held again"
        table.instants.reserve_time()
    clock.advance(CLOCK_SKEW_S_MAX - 0.01)
    assert not is_free(table), "the second time was forgotten"
    clock.advance(0.02)
    assert is_free(table)
    assert owner(table) == first


def test_the_first_time_counts_where_the_second_holder_gives_none(
    table: HoodieTable, clock: AlarmedClock
) -> None:
    with table.lock().acquire():
        table.instants.reserve_time()
    with table.lock().acquire():
        pass
    assert not is_free(table)
    clock.advance(CLOCK_SKEW_S_MAX)
    assert is_free(table)


def test_a_lease_that_is_held_for_long_is_given_to_others_first(
    table: HoodieTable, clock: AlarmedClock
) -> None:
    with table.lock().acquire():
        clock.advance(HELD_S_MAX)
        table.instants.reserve_time()
    first, before_s = owner(table), clock.monotonic_s()
    with table.lock().acquire():
        assert owner(table) != first
        assert clock.monotonic_s() >= before_s + CLOCK_SKEW_S_MAX


def test_other_timing_wants_a_lease_of_its_own(table: HoodieTable) -> None:
    with table.lock().acquire():
        table.instants.reserve_time()
    first = owner(table)
    with table.lock(LockTiming(validity_s=100.0)).acquire():
        assert owner(table) != first


def test_a_forked_process_does_not_take_what_its_parent_will_release(
    table: HoodieTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with table.lock().acquire():
        table.instants.reserve_time()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(ConflictError, match="the table lock is held by"):
        table.lock().acquire(timeout_s=0)


def test_releasing_twice_does_not_release_what_the_next_holds(
    table: HoodieTable, clock: AlarmedClock
) -> None:
    lease = table.lock().acquire()
    table.instants.reserve_time()
    lease.release()
    with table.lock().acquire():
        lease.release()
        clock.advance(2 * CLOCK_SKEW_S_MAX)
        assert not is_free(table)


def test_a_lease_that_ended_while_it_rested_is_not_taken_back(
    table: HoodieTable, clock: AlarmedClock
) -> None:
    with table.lock().acquire() as lease:
        table.instants.reserve_time()
    clock.alarms.clear()
    clock.step_wall(lease.remaining_s() + 1)
    first = owner(table)
    with table.lock().acquire():
        assert owner(table) != first


def test_who_gives_a_time_without_the_lock_waits(table: HoodieTable, clock: AlarmedClock) -> None:
    before_s = clock.monotonic_s()
    table.instants.reserve_time()
    assert clock.monotonic_s() == pytest.approx(before_s + CLOCK_SKEW_S_MAX)


_ENDS_AT_ONCE = """\
import os
from tideline.clock import SystemClock, call_later, finish_later

call_later(SystemClock(), 0.2, lambda: print("released", flush=True))
print("ends", flush=True)
"""


@pytest.mark.parametrize("end", ["", "finish_later()\nos._exit(0)\n"])
def test_a_process_that_ends_in_order_releases_first(end: str) -> None:
    command = [sys.executable, "-c", _ENDS_AT_ONCE + end]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["ends", "released"]


@pytest.mark.parametrize("module", ["execute_operation", "warm_worker"])
def test_pods_that_do_not_wait_for_threads_wait_for_what_is_done_later(module: str) -> None:
    text = (Path(cli.__file__).parent / f"{module}.py").read_text()
    assert 0 < text.index("    finish_later()\n") < text.rindex("os._exit(")
