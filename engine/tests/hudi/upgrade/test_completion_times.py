"""When instants completed whose names do not say so."""

from __future__ import annotations

from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.zone import TimelineZone
from tideline.hudi.upgrade.completion_times import completion_times

UTC = TimelineZone()
FIRST, SECOND = InstantTime("20260101000000000"), InstantTime("20260101000000002")


def test_each_completed_before_the_next_was_requested() -> None:
    found = completion_times([(SECOND, Action.COMMIT), (FIRST, Action.DELTACOMMIT)], UTC)
    assert FIRST < found[FIRST, Action.DELTACOMMIT] < SECOND < found[SECOND, Action.COMMIT]


def test_so_do_those_of_whole_seconds() -> None:
    first, second = InstantTime("20260101000000"), InstantTime("20260101000001")
    found = completion_times([(first, Action.DELTACOMMIT), (second, Action.COMMIT)], UTC)
    assert first < found[first, Action.DELTACOMMIT] < second < found[second, Action.COMMIT]


def test_no_two_are_the_same() -> None:
    names = [(FIRST, Action.COMMIT), (FIRST, Action.SAVEPOINT), (SECOND, Action.COMMIT)]
    found = completion_times(names, UTC)
    assert len(set(found.values())) == 3
    assert all(at > time for (time, _), at in found.items())


def test_bootstraps_completed_as_well() -> None:
    first, second = InstantTime("0" * 16 + "1"), InstantTime("0" * 16 + "2")
    found = completion_times([(first, Action.COMMIT), (second, Action.COMMIT)], UTC)
    assert len(set(found.values())) == 2
    assert all(time < at < FIRST for (time, _), at in found.items())
