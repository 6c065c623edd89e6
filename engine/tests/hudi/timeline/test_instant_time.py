"""Instant times: parsing, printing, order, and the next one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import ConfigError, CorruptTableError
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time, next_instant_time

YEAR_1_MS = int(datetime(1, 1, 1, tzinfo=UTC).timestamp()) * 1000
YEAR_9999_MS = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp()) * 1000
MOMENTS = st.integers(YEAR_1_MS, YEAR_9999_MS)
INSTANT_TIMES = MOMENTS.map(InstantTime.from_epoch_ms)


@given(MOMENTS)
def test_a_moment_survives_the_way_through_an_instant_time(epoch_ms: int) -> None:
    assert InstantTime.from_epoch_ms(epoch_ms).epoch_ms() == epoch_ms


@given(INSTANT_TIMES)
def test_what_is_printed_parses_to_the_same_value(time: InstantTime) -> None:
    assert InstantTime.parse(str(time)) == time
    assert len(str(time)) == 17


@given(MOMENTS, MOMENTS)
def test_instant_times_are_ordered_as_their_moments(left_ms: int, right_ms: int) -> None:
    left, right = InstantTime.from_epoch_ms(left_ms), InstantTime.from_epoch_ms(right_ms)
    assert (left < right) == (left_ms < right_ms)
    assert (left == right) == (left_ms == right_ms)


def test_a_moment_is_printed_in_utc() -> None:
    moment = datetime(2025, 9, 22, 13, 21, 54, 428_000, tzinfo=UTC)
    assert str(InstantTime.from_epoch_ms(round(moment.timestamp() * 1000))) == "20250922132154428"


def test_whole_seconds_mean_their_last_millisecond() -> None:
    assert InstantTime("20211022151606").epoch_ms() == InstantTime("20211022151606999").epoch_ms()


def test_whole_seconds_come_before_the_milliseconds_of_that_second() -> None:
    """As Hudi compares them, as text: the metadata table of an old table depends on it."""
    times = ["20211022151643", "20211022151644", "20211022151644001", "20211022151645"]
    assert sorted(map(InstantTime, reversed(times))) == list(map(InstantTime, times))


def test_a_suffix_comes_after_its_instant_and_before_the_next_millisecond() -> None:
    compaction = InstantTime("20250922132151286001")
    assert InstantTime("20250922132151286") < compaction < InstantTime("20250922132151287")
    assert compaction.epoch_ms() == InstantTime("20250922132151286").epoch_ms()


@pytest.mark.parametrize(
    "text", ["", "0", "2025", "2025092213215442", "20250922-132154", " 20250922132154428", "٢" * 17]
)
def test_other_texts_are_refused_by_name(text: str) -> None:
    assert not is_instant_time(text)
    with pytest.raises(ConfigError) as refused:
        InstantTime.parse(text)
    assert refused.value.value == text


@pytest.mark.parametrize("text", ["0" * 13, "00000000000000", "00000000000000010"])
def test_bootstrap_times_parse_and_lie_at_the_beginning(text: str) -> None:
    assert InstantTime.parse(text).epoch_ms() == 0
    assert InstantTime.parse(text) < InstantTime.from_epoch_ms(0)


def test_digits_that_are_no_date_have_no_moment() -> None:
    with pytest.raises(CorruptTableError, match="20251399000000000"):
        InstantTime("20251399000000000").epoch_ms()


@given(MOMENTS.filter(lambda ms: ms < YEAR_9999_MS), st.none() | INSTANT_TIMES)
def test_the_next_instant_time_is_above_the_clock_and_the_newest(
    now_ms: int, newest: InstantTime | None
) -> None:
    following = next_instant_time(now_ms, newest)
    assert following > InstantTime.from_epoch_ms(now_ms)
    assert newest is None or following > newest


@pytest.mark.parametrize("newest", ["20990101000000", "20990101000000999", "20990101000000999001"])
def test_a_clock_behind_the_timeline_gives_the_millisecond_after_the_newest(newest: str) -> None:
    assert next_instant_time(0, InstantTime(newest)) == InstantTime("20990101000001000")


def test_a_clock_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError):
        InstantTime.from_epoch_ms(10**18)
