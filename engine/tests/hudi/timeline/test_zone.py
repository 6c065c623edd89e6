"""Time zones of instant times: east, west, half hours, and both changes of daylight saving."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tideline.errors import ConfigError
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.zone import UTC_ZONE, TimelineZone

LOS_ANGELES = TimelineZone.parse("America/Los_Angeles")
KOLKATA = TimelineZone.parse("Asia/Kolkata")
HOUR_MS = 3_600_000


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("zone", "moment", "digits"),
    [
        ("UTC", "2026-01-05T10:00:00.123", "20260105100000123"),
        ("Asia/Kolkata", "2026-01-05T20:00:00.123", "20260106013000123"),
        ("America/Los_Angeles", "2026-01-05T07:00:00", "20260104230000000"),
        ("America/Los_Angeles", "2026-07-05T07:00:00", "20260705000000000"),
        ("Asia/Kathmandu", "2026-01-05T10:00:00", "20260105154500000"),
        ("Pacific/Kiritimati", "2026-01-05T10:00:00", "20260106000000000"),
        ("-03:30", "2026-01-05T10:00:00", "20260105063000000"),
        ("UTC+5:30", "2026-01-05T10:00:00", "20260105153000000"),
    ],
)
def test_digits_are_those_of_the_zone_and_lead_back(zone: str, moment: str, digits: str) -> None:
    parsed = TimelineZone.parse(zone)
    assert parsed.instant_at(ms(moment)) == InstantTime(digits)
    assert parsed.epoch_ms(InstantTime(digits)) == ms(moment)
    assert parsed.earliest_ms(InstantTime(digits)) == ms(moment)


@pytest.mark.parametrize("name", ["utc", "Z", "Etc/UTC", " UTC ", "GMT", "+00:00"])
def test_utc_has_several_names(name: str) -> None:
    assert TimelineZone.parse(name) is UTC_ZONE


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "LOCAL", "../etc/passwd", "+19:00", "+5:99"])
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="no time zone of this name"):
        TimelineZone.parse(name)


def test_digits_that_come_twice_are_the_later_moment() -> None:
    """On 1 November 2026 at 9:00 UTC clocks in Los Angeles go from 2:00 back to 1:00."""
    twice = InstantTime("20261101013000000")
    assert LOS_ANGELES.earliest_ms(twice) == ms("2026-11-01T08:30:00")
    assert LOS_ANGELES.epoch_ms(twice) == ms("2026-11-01T09:30:00")
    assert LOS_ANGELES.instant_at(ms("2026-11-01T08:30:00")) == twice
    assert LOS_ANGELES.instant_at(ms("2026-11-01T09:30:00")) == twice


def test_digits_that_never_come_are_near_the_change() -> None:
    """On 8 March 2026 at 10:00 UTC clocks in Los Angeles go from 2:00 on to 3:00."""
    never = InstantTime("20260308023000000")
    assert LOS_ANGELES.epoch_ms(never) == ms("2026-03-08T10:30:00")
    assert LOS_ANGELES.earliest_ms(never) == ms("2026-03-08T09:30:00")


@pytest.mark.parametrize("change", ["2026-03-08T10:00:00", "2026-11-01T09:00:00"])
def test_new_instants_rise_through_a_change_of_daylight_saving(change: str) -> None:
    now_ms, newest = ms(change) - 2 * HOUR_MS, None
    for _ in range(60):
        made = LOS_ANGELES.next_time(now_ms, newest)
        assert newest is None or made > newest
        # Never ahead of the clock's own digits by more than the hour that comes twice.
        assert LOS_ANGELES.epoch_ms(made) <= now_ms + HOUR_MS + 100
        newest, now_ms = made, now_ms + 5 * 60_000
    assert newest == LOS_ANGELES.next_time(now_ms - 5 * 60_000, None)


def test_a_new_instant_follows_one_from_the_future() -> None:
    newest = InstantTime("20270101000000000")
    assert KOLKATA.next_time(ms("2026-01-05T10:00:00"), newest) == InstantTime("20270101000000001")


def test_times_before_all_history_and_odd_shapes() -> None:
    assert KOLKATA.epoch_ms(InstantTime("00000000000000010")) == 0
    assert KOLKATA.epoch_ms(InstantTime("20260105153000")) == ms("2026-01-05T10:00:00.999")
    assert KOLKATA.epoch_ms(InstantTime("20260105153000000001")) == ms("2026-01-05T10:00:00")


def test_no_digits_outside_the_calendar() -> None:
    beyond = ms("9999-12-31T23:59:59")
    with pytest.raises(ConfigError, match="no instant time"):
        KOLKATA.instant_at(beyond)


def test_every_quarter_hour_of_two_years_leads_back() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for zone in (LOS_ANGELES, KOLKATA, TimelineZone.parse("Australia/Lord_Howe")):
        for step in range(0, 2 * 365 * 96, 7):
            moment = round((start + timedelta(minutes=15 * step)).timestamp() * 1000)
            digits = zone.instant_at(moment)
            assert zone.earliest_ms(digits) <= moment <= zone.epoch_ms(digits)
