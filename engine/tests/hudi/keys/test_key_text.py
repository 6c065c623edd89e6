"""The texts of keys, held against other implementations: numpy's calendar, Python's decimals."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tideline.hudi.keys.key_text import MILLIS_MAX, TEXT_MILLIS_MIN, has_two_texts, key_texts
from tideline.hudi.keys.virtual_key import virtual_keys
from tideline.testing.key_values import key_values

FOUR_DIGITS = 10_000


def calendar_text(text: str) -> str:
    """Numpy's text as Java has it: at least four digits of a year, a plus sign before more."""
    year, month, day = text.rsplit("-", 2)
    number = int(year)
    sign = "-" if number < 0 else "+" if number >= FOUR_DIGITS else ""
    return f"{sign}{abs(number):04}-{month}-{day}"


def texts(column: pa.Array, *, as_text: bool = False) -> list[str | None]:
    found: list[str | None] = key_texts(column, "v", timestamps_as_text=as_text).to_pylist()
    return found


@given(st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=1))
def test_every_day_has_the_text_of_the_calendar(days: list[int]) -> None:
    column = pa.array(days, pa.int32()).cast(pa.date32())
    expected = [calendar_text(str(np.datetime64(day, "D"))) for day in days]
    assert texts(column) == expected
    assert virtual_keys(pa.record_batch({"v": column}), ["v"], qualified=False) == pa.array(
        expected
    )


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1))
def test_moments_are_numbers_of_microseconds(micros: list[int]) -> None:
    column = pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC"))
    assert texts(column) == list(map(str, micros))


@given(st.lists(st.integers(TEXT_MILLIS_MIN * 1_000, MILLIS_MAX * 1_000), min_size=1))
def test_moments_as_text_have_the_text_of_the_calendar(micros: list[int]) -> None:
    column = pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC"))
    assert not has_two_texts(column, timestamps_as_text=True).any()
    cut = [-(-number // 1_000) if number < 0 else number // 1_000 for number in micros]
    for number, text in zip(cut, texts(column, as_text=True), strict=True):
        day, time = str(np.datetime64(number, "ms")).split("T")
        seconds, millis = time.split(".")
        assert text == f"{day} {seconds}.{millis.rstrip('0') or '0'}"


def test_moments_of_other_calendars_are_no_text() -> None:
    edges = [TEXT_MILLIS_MIN, TEXT_MILLIS_MIN - 1, MILLIS_MAX, MILLIS_MAX + 1]
    column = pa.array(edges, pa.int64()).cast(pa.timestamp("ms", "UTC"))
    assert has_two_texts(column, timestamps_as_text=True).tolist() == [False, True, False, True]
    assert not has_two_texts(column, timestamps_as_text=False).any()
    assert texts(column, as_text=True)[::2] == ["1582-10-15 00:00:00.0", "9999-12-31 23:59:59.999"]


@given(st.integers(0, 38), st.lists(st.integers(1 - 10**38, 10**38 - 1), min_size=1))
def test_every_decimal_has_the_text_of_python(scale: int, digits: list[int]) -> None:
    values = [
        Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale)) for number in digits
    ]
    assert texts(pa.array(values, pa.decimal128(38, scale))) == list(map(str, values))


@given(st.lists(st.floats(), min_size=1), st.lists(st.floats(width=32), min_size=1))
def test_the_text_of_a_number_is_that_number(doubles: list[float], floats: list[float]) -> None:
    for kind, values in ((np.float64, doubles), (np.float32, floats)):
        column = pa.array(np.array(values, kind))
        for value, text in zip(values, texts(column), strict=True):
            assert text is not None
            if value == value:
                assert kind(text) == kind(value)
                assert text.startswith("-") == bool(np.signbit(value))
            assert text in {"NaN", "Infinity", "-Infinity"} or "." in text


def test_numbers_of_everyday_have_one_text() -> None:
    column = pa.array([0.0, -0.0, 1.0, 0.1, 1e-3, 123456.789, 1e15, 2.0**52, np.inf, np.nan, 0.5])
    assert not has_two_texts(column, timestamps_as_text=True).any()
    floats = pa.array([0.1, 1e7, 16_777_215], pa.float32())
    assert not has_two_texts(floats, timestamps_as_text=True).any()
    two = [5e-324, 2.0**53, 8.41e21, 2.0**-44, 2.0**99]
    both = pa.array([*two, *[-number for number in two]])
    assert has_two_texts(both, timestamps_as_text=False).all()


def test_the_values_reach_the_ends_of_every_type() -> None:
    values = key_values()
    assert len(values) == 20
    assert "-5877641-06-23" in texts(values["date"]) and "1582-10-14" in texts(values["date"])
    assert {"4.9E-324", "NaN", "-0.0", "1.7976931348623157E308"} - set(texts(values["double"])) == {
        "4.9E-324"
    }
