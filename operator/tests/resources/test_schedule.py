"""Durations, cron expressions and timestamps."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline_operator.resources.schedule import Cron, Duration, Timestamp

MINUTE_MS = 60_000


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000), ("2d", 172_800_000)],
)
def test_a_duration_reads_and_prints_itself(text: str, ms: int) -> None:
    assert Duration.parse(text) == Duration(ms)
    assert str(Duration(ms)) == text


@pytest.mark.parametrize("text", ["", "30", "s", "-5s", "0s", "1.5h", "30 s", "30S", "1h30m"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="allowed"):
        Duration.parse(text)


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("* * * * *", "2026-01-31T23:59:30", "2026-02-01T00:00"),
        ("*/15 * * * *", "2026-01-01T10:15", "2026-01-01T10:30"),
        ("5/20 * * * *", "2026-01-01T10:26", "2026-01-01T10:45"),
        ("0 2 * * *", "2026-01-01T02:00", "2026-01-02T02:00"),
        ("30 8 1,15 * *", "2026-01-15T08:30", "2026-02-01T08:30"),
        ("0 0 * * 1-5", "2026-01-02T12:00", "2026-01-05T00:00"),
        ("0 0 * * 7", "2026-01-01T00:00", "2026-01-04T00:00"),
        ("0 0 13 * 5", "2026-03-06T01:00", "2026-03-13T00:00"),
        ("0 0 1 * 5", "2026-03-02T00:00", "2026-03-06T00:00"),
        ("0 0 29 2 *", "2026-01-01T00:00", "2028-02-29T00:00"),
    ],
)
def test_a_cron_expression_knows_its_next_minute(
    expression: str, after: str, expected: str
) -> None:
    assert Cron.parse(expression).next_after(at(after)) == at(expected)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("* * * *", "five fields"),
        ("60 * * * *", "minute field"),
        ("* 24 * * *", "hour field"),
        ("* * 0 * *", "day of month field"),
        ("* * * jan *", "month field"),
        ("*/0 * * * *", "minute field"),
        ("9-5 * * * *", "minute field"),
        ("0 0 31 2 *", "no date"),
    ],
)
def test_an_invalid_cron_expression_is_refused_with_the_reason(expression: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Cron.parse(expression)


@given(
    minute=st.sampled_from(["*", "*/7", "3", "10-20/5", "0,59"]),
    hour=st.sampled_from(["*", "0", "6-8", "*/5"]),
    weekday=st.sampled_from(["*", "1", "0,6"]),
    start_ms=st.integers(1_600_000_000_000, 1_900_000_000_000),
)
def test_no_minute_between_now_and_the_next_one_matches(
    minute: str, hour: str, weekday: str, start_ms: int
) -> None:
    cron = Cron.parse(f"{minute} {hour} * * {weekday}")
    next_ms = cron.next_after(start_ms)
    assert next_ms is not None
    assert next_ms > start_ms
    assert cron.matches(next_ms)
    checked = range(start_ms - start_ms % MINUTE_MS + MINUTE_MS, next_ms, MINUTE_MS)
    assert not any(cron.matches(moment) for moment in checked[:2_000])


@st.composite
def cron_field(draw: st.DrawFn, low: int, high: int, *, star_as: str = "*") -> str:
    """Numbers, ranges and steps; `star_as` is how all values are written before a step."""
    if draw(st.booleans()):
        return "*"
    first = st.integers(low, high - 1)
    step = st.integers(2, 15)
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        start = draw(first)
        span = f"{start}-{draw(st.integers(start + 1, high))}"
        forms = [str(start), span, f"{span}/{draw(step)}", f"{start}/{draw(step)}"]
        parts.append(draw(st.sampled_from([*forms, f"{star_as}/{draw(step)}"])))
    return ",".join(parts)


# `*/n` among the days is written out: Debian's cron, which CronSim follows, takes it for no
# restriction when both kinds of days are given.
CRON = st.tuples(
    cron_field(0, 59),
    cron_field(0, 23),
    cron_field(1, 31, star_as="1-31"),
    cron_field(1, 12),
    cron_field(0, 7, star_as="0-7"),
)


@given(fields=CRON, start_ms=st.integers(1_600_000_000_000, 1_900_000_000_000))
@settings(max_examples=500, deadline=None)
def test_the_next_minutes_are_those_that_cronsim_finds(
    fields: tuple[str, ...], start_ms: int
) -> None:
    expression = " ".join(fields)
    try:
        cron = Cron.parse(expression)
    except ValueError:
        with pytest.raises((CronSimError, StopIteration)):
            next(CronSim(expression, datetime.fromtimestamp(start_ms / 1000, UTC)))
        return
    theirs = CronSim(expression, datetime.fromtimestamp(start_ms // 1000, UTC))
    for _ in range(3):
        expected = int(next(theirs).timestamp()) * 1000
        found = cron.next_after(start_ms)
        assert found == expected
        start_ms = expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 0 */2 * 1", "2026-01-03T00:00"),
        ("0 0 */2 * *", "2026-01-03T00:00"),
        ("0 0 13 * */7", "2026-01-04T00:00"),
    ],
)
def test_a_step_over_all_days_is_a_restriction(expression: str, expected: str) -> None:
    assert Cron.parse(expression).next_after(at("2026-01-01T00:00")) == at(expected)


@given(st.integers(0, 4_000_000_000_000))
def test_a_timestamp_reads_what_it_prints(ms: int) -> None:
    assert Timestamp.parse(str(Timestamp(ms))) == Timestamp(ms)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-01T00:00:00"])
def test_a_time_without_a_zone_is_not_a_timestamp(text: str) -> None:
    with pytest.raises(ValueError, match="RFC 3339"):
        Timestamp.parse(text)
