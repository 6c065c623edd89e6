"""Tables whose reading ended a process: when they are read again, and when all is forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tideline.testing.fake_clock import FakeClock
from tideline_operator.reading.set_aside import FIRST_S, LAST_S, SetAside
from tideline_operator.testing.table_states import resolved

TABLE = "table", "lake", "people"
OTHER = "table", "lake", "orders"
DECLARED = resolved().resource


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_a_suspect_is_read_alone_and_at_once(clock: FakeClock) -> None:
    aside = SetAside(clock)
    aside.suspect(TABLE, DECLARED)
    assert aside.is_alone(TABLE)
    assert not aside.is_alone(OTHER)
    assert aside.refusal(TABLE, DECLARED) is None
    aside.clear(TABLE)
    assert not aside.is_alone(TABLE)


def test_delays_grow_up_to_an_hour_and_no_other_table_is_concerned(clock: FakeClock) -> None:
    aside = SetAside(clock)
    expected_s = FIRST_S
    for _ in range(12):
        aside.set_aside(TABLE, DECLARED, "it took too long")
        assert "it took too long" in str(aside.refusal(TABLE, DECLARED))
        assert (aside.refusal(OTHER, DECLARED), aside.count) == (None, 1)
        clock.advance(expected_s - 1)
        assert aside.refusal(TABLE, DECLARED) is not None
        clock.advance(2)
        assert aside.refusal(TABLE, DECLARED) is None
        assert aside.is_alone(TABLE)
        expected_s = min(LAST_S, 2 * expected_s)


def test_a_changed_spec_is_read_at_once_but_alone(clock: FakeClock) -> None:
    aside = SetAside(clock)
    aside.set_aside(TABLE, DECLARED, "no")
    changed = replace(DECLARED, spec=replace(DECLARED.spec, suspend=True))
    assert aside.refusal(TABLE, changed) is None
    assert aside.is_alone(TABLE)
    aside.set_aside(TABLE, changed, "no")
    clock.advance(FIRST_S + 1)
    assert aside.refusal(TABLE, changed) is None


def test_a_suspicion_makes_no_delay_longer_or_shorter(clock: FakeClock) -> None:
    aside = SetAside(clock)
    aside.set_aside(TABLE, DECLARED, "no")
    aside.suspect(TABLE, DECLARED)
    assert aside.refusal(TABLE, DECLARED) is not None
