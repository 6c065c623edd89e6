"""Transforms of single values, held against the specification's own examples."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal as Number
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.iceberg.metadata.field_type import Decimal, Fixed, Primitive, PrimitiveType
from tideline.iceberg.metadata.partition_spec import Transform
from tideline.iceberg.scan.partition_value import partition_value

EPOCH = datetime.date(1970, 1, 1)
UTC = datetime.UTC


def micros(text: str) -> int:
    moment = datetime.datetime.fromisoformat(text).replace(tzinfo=UTC)
    return (moment - datetime.datetime(1970, 1, 1, tzinfo=UTC)) // datetime.timedelta(
        microseconds=1
    )


@pytest.mark.parametrize(
    ("type_", "value", "hashed"),
    [
        (Primitive("int"), 34, 2017239379),
        (Primitive("long"), 34, 2017239379),
        (Decimal(9, 2), Number("14.20"), -500754589),
        (Primitive("date"), (datetime.date(2017, 11, 16) - EPOCH).days, -653330422),
        (Primitive("time"), (22 * 3600 + 31 * 60 + 8) * 10**6, -662762989),
        (Primitive("timestamp"), micros("2017-11-16T22:31:08"), -2047944441),
        (Primitive("timestamp"), micros("2017-11-16T22:31:08.000001"), -1207196810),
        (Primitive("timestamp_ns"), micros("2017-11-16T22:31:08.000001") * 1000, -1207196810),
        (Primitive("string"), "iceberg", 1210000089),
        (Primitive("uuid"), uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), 1488055340),
        (Fixed(4), b"\x00\x01\x02\x03", -188683207),
        (Primitive("binary"), b"\x00\x01\x02\x03", -188683207),
    ],
)
def test_buckets_are_of_the_specifications_hashes(
    type_: PrimitiveType, value: Any, hashed: int
) -> None:
    for width in (1, 16, 1000, 1 << 30):
        expected = (hashed & 0x7FFFFFFF) % width
        assert partition_value(Transform("bucket", width), type_, value) == expected


@pytest.mark.parametrize(
    ("type_", "width", "value", "cut"),
    [
        (Primitive("int"), 10, 1, 0),
        (Primitive("long"), 10, -1, -10),
        (Decimal(9, 2), 50, Number("10.65"), Number("10.50")),
        (Decimal(9, 2), 50, Number("-0.05"), Number("-0.50")),
        (Decimal(38, 0), 10, Number(10**37 + 7), Number(10**37)),
        (Primitive("string"), 3, "iceberg", "ice"),
        (Primitive("string"), 2, "日本語", "日本"),
        (Primitive("binary"), 3, b"\x01\x02\x03\x04", b"\x01\x02\x03"),
    ],
)
def test_truncation_is_downward(type_: PrimitiveType, width: int, value: Any, cut: Any) -> None:
    assert partition_value(Transform("truncate", width), type_, value) == cut


@given(st.dates())
def test_days_months_and_years_are_those_of_the_calendar(day: datetime.date) -> None:
    days, date = (day - EPOCH).days, Primitive("date")
    assert partition_value(Transform("year"), date, days) == day.year - 1970
    months = (day.year - 1970) * 12 + day.month - 1
    assert partition_value(Transform("month"), date, days) == months
    assert partition_value(Transform("day"), date, days) == days


@given(st.integers(-(2**62), 2**62))
def test_times_before_and_after_1970_are_rounded_down(value: int) -> None:
    timestamp, nanos = Primitive("timestamptz"), Primitive("timestamptz_ns")
    hours = partition_value(Transform("hour"), timestamp, value)
    assert hours * 3_600_000_000 <= value < (hours + 1) * 3_600_000_000
    days = partition_value(Transform("day"), timestamp, value)
    assert days == hours // 24
    assert partition_value(Transform("day"), nanos, value * 1000 + 999) == days
    assert partition_value(Transform("month"), timestamp, value) == partition_value(
        Transform("month"), Primitive("date"), days
    )
