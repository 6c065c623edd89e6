"""When instants completed whose names do not say so."""

from __future__ import annotations

from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.zone import TimelineZone
from tideline.hudi.upgrade.completion_times import StateTimes, completion_times

UTC, WEST = TimelineZone(), TimelineZone.parse("-08:00")
FIRST, SECOND = InstantTime("20260101000000000"), InstantTime("20260101000100000")
HOUR_MS = 3_600_000


def after(time: InstantTime, ms: int) -> InstantTime:
    return InstantTime.from_epoch_ms(time.epoch_ms() + ms)


def test_the_object_that_completed_it_says_when() -> None:
    begun = FIRST.epoch_ms()
    found = completion_times({(FIRST, Action.COMMIT): StateTimes(begun + 5, begun + 700)}, UTC)
    assert found == {(FIRST, Action.COMMIT): after(FIRST, 700)}


def test_digits_are_those_of_the_zone() -> None:
    begun = WEST.epoch_ms(FIRST)
    found = completion_times({(FIRST, Action.COMMIT): StateTimes(begun + 5, begun + 700)}, WEST)
    assert found == {(FIRST, Action.COMMIT): after(FIRST, 700)}


def test_objects_of_a_copied_table_say_nothing() -> None:
    """Else the first would have completed after the second was requested."""
    copied = SECOND.epoch_ms() + HOUR_MS
    times = {
        (FIRST, Action.DELTACOMMIT): StateTimes(copied, copied + 1),
        (SECOND, Action.COMMIT): StateTimes(copied + 2, copied + 3),
    }
    found = completion_times(times, UTC)
    assert found[FIRST, Action.DELTACOMMIT] == after(FIRST, 1)
    assert found[SECOND, Action.COMMIT] == after(SECOND, 1)


def test_entries_that_are_too_old_to_say_so() -> None:
    found = completion_times({(FIRST, Action.COMMIT): StateTimes(None, None)}, UTC)
    assert found == {(FIRST, Action.COMMIT): after(FIRST, 1)}


def test_no_two_are_the_same() -> None:
    begun, last = FIRST.epoch_ms(), SECOND.epoch_ms() + 1
    times = {
        (FIRST, Action.COMMIT): StateTimes(begun, last),
        (SECOND, Action.COMMIT): StateTimes(SECOND.epoch_ms(), last),
        (SECOND, Action.SAVEPOINT): StateTimes(None, None),
    }
    found = completion_times(times, UTC)
    assert len(set(found.values())) == 3
    assert all(at > time for (time, _), at in found.items())
