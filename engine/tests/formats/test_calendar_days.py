"""Days beyond Python's calendar, against Python's own within it and NumPy's outside of it."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.formats.calendar_days import FarTime, civil_day, day_number, iso_day
from tideline.formats.python_values import python_values

EPOCH = date(1970, 1, 1)
FIRST, LAST = (date.min - EPOCH).days, (date.max - EPOCH).days
INT = st.integers(-(2**31), 2**31 - 1)


@given(st.integers(FIRST, LAST))
def test_days_that_python_has_are_pythons(number: int) -> None:
    day = EPOCH + timedelta(days=number)
    assert civil_day(number) == (day.year, day.month, day.day)
    assert iso_day(number) == day.isoformat()


@given(INT)
def test_days_of_any_year_are_numpys_and_lead_back(number: int) -> None:
    day = np.datetime64(number, "D")
    year, month, _ = civil_day(number)
    assert year - 1970 == int(day.astype("datetime64[Y]").astype(int))
    assert month - 1 == int(day.astype("datetime64[M]").astype(int)) % 12
    assert day_number(*civil_day(number)) == number


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (LAST + 1, "+10000-01-01"),
        (FIRST - 1, "0000-12-31"),
        (FIRST - 367, "-0001-12-31"),
        (2**31 - 1, "+5881580-07-11"),
        (-(2**31), "-5877641-06-23"),
    ],
)
def test_years_are_spelled_with_a_sign_where_iso_asks_for_one(number: int, text: str) -> None:
    assert iso_day(number) == text


@pytest.mark.parametrize("day", [(2001, 2, 29), (10_001, 2, 29), (10_000, 13, 1)])
def test_a_day_that_no_month_has_is_refused(day: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError):
        day_number(*day)


DAYS = pa.array([LAST + 1, 0, None], pa.int32()).view(pa.date32())
DAYS_SHOWN = [FarTime(LAST + 1), EPOCH, None]


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        (DAYS, DAYS_SHOWN),
        (pa.chunked_array([DAYS, DAYS]), DAYS_SHOWN * 2),
        (DAYS.cast(pa.date64()), DAYS_SHOWN),
        (
            pa.StructArray.from_arrays([DAYS, pa.array([1, 2, 3])], ["d", "n"]),
            [{"d": day, "n": number} for day, number in zip(DAYS_SHOWN, (1, 2, 3), strict=True)],
        ),
        (pa.ListArray.from_arrays([0, 2, 3], DAYS), [DAYS_SHOWN[:2], DAYS_SHOWN[2:]]),
        (
            pa.MapArray.from_arrays([0, 1, 2], pa.array(["a", "b"]), DAYS.slice(0, 2)),
            [[("a", DAYS_SHOWN[0])], [("b", DAYS_SHOWN[1])]],
        ),
    ],
)
def test_far_days_are_values_at_any_depth(column: pa.Array, shown: list[object]) -> None:
    assert python_values(column) == shown


@pytest.mark.parametrize(
    ("unit", "zone", "text"),
    [
        ("s", None, "+10000-01-01T00:00:01"),
        ("ms", "UTC", "+10000-01-01T00:00:01.001000+00:00"),
        ("us", "UTC", "+10000-01-01T00:00:01.000001+00:00"),
        ("us", "Europe/Berlin", "+10000-01-01T00:00:01.000001+00:00"),
    ],
)
def test_far_moments_keep_their_time_of_day(unit: str, zone: str | None, text: str) -> None:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6}[unit]
    number = ((LAST + 1) * 86_400 + 1) * per_second + (per_second > 1)
    (value,) = python_values(pa.array([number], pa.int64()).view(pa.timestamp(unit, zone)))
    assert value.isoformat() == text
    assert str(value) == text.replace("T", " ")
