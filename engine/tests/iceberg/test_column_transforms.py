"""Partition transforms of columns, against the specification's values and one value at a time."""

from __future__ import annotations

import decimal
import uuid
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.iceberg.data.arrow_schema import arrow_type, as_arrow, as_internal
from tideline.iceberg.data.transforms import transformed
from tideline.iceberg.metadata.field_type import FieldType, PrimitiveType, parse_type
from tideline.iceberg.metadata.partition_spec import Transform
from tideline.iceberg.scan.partition_value import partition_value

INT = st.integers(-(2**31), 2**31 - 1)
BIG_INT = st.integers(-(2**63), 2**63 - 1)
# Hours of all of them are 32 bit numbers.
MICROS = st.integers(-7_700_000_000_000_000_000, 7_700_000_000_000_000_000)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": INT,
    "long": BIG_INT,
    "date": st.integers(-(2**31), 2**31 - 1),
    "time": st.integers(0, 86_399_999_999),
    "timestamp": MICROS,
    "timestamptz": MICROS,
    "timestamp_ns": BIG_INT,
    "timestamptz_ns": BIG_INT,
    "string": st.text(st.characters(exclude_categories=["Cs"])),
    "binary": st.binary(),
    "fixed[5]": st.binary(min_size=5, max_size=5),
    "uuid": st.uuids(),
    "decimal(9, 2)": st.decimals(-9999999, 9999999, places=2),
    "decimal(38, 5)": st.decimals(-(10**32), 10**32, places=5, allow_nan=False),
}
NUMBERS = ("int", "long", "decimal(9, 2)", "decimal(38, 5)")
DAYS = ("date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")
CASES = (
    [(kind, "bucket[16]") for kind in VALUES]
    + [(kind, "truncate[7]") for kind in (*NUMBERS, "string", "binary")]
    + [(kind, "truncate[1999999999]") for kind in NUMBERS]
    + [(kind, unit) for kind in DAYS for unit in ("year", "month", "day")]
    + [(kind, "hour") for kind in DAYS[1:]]
)


def column_of(values: list[Any], kind: FieldType) -> pa.Array:
    if str(kind).startswith("time"):
        # As numbers: Python's own moments know neither nanoseconds nor every year.
        return pa.array(values, pa.int64()).view(arrow_type(kind))
    return pa.array([as_arrow(value, kind) for value in values], arrow_type(kind))


@pytest.mark.parametrize("kind", DAYS)
@pytest.mark.parametrize("unit", ["year", "month", "day"])
def test_the_least_and_the_greatest_moment_are_in_a_partition(kind: str, unit: str) -> None:
    parsed, source = Transform.parse(unit), parse_type(kind)
    assert isinstance(source, PrimitiveType)
    bits = 31 if kind == "date" else 63
    values = [-(2**bits), -(2**bits) + 1, 2**bits - 1]
    column = pa.array(values, pa.int32() if kind == "date" else pa.int64()).view(arrow_type(source))
    found = [
        as_internal(value, parsed.result_type(source)) for value in transformed(parsed, column)
    ]
    assert found == [partition_value(parsed, source, value) for value in values]


@pytest.mark.parametrize(("kind", "transform"), CASES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_column_is_transformed_like_each_of_its_values(
    kind: str, transform: str, data: st.DataObject
) -> None:
    parsed, source = Transform.parse(transform), parse_type(kind)
    assert isinstance(source, PrimitiveType)
    values = data.draw(st.lists(st.none() | VALUES[kind], max_size=12))
    column = column_of(values, source)
    result = parsed.result_type(source)
    found = [as_internal(value, result) for value in transformed(parsed, column)]
    assert found == [
        None if value is None else partition_value(parsed, source, value) for value in values
    ]


@pytest.mark.parametrize(
    ("kind", "value", "hashed"),
    [
        ("int", 34, 2017239379),
        ("long", 34, 2017239379),
        ("decimal(9, 2)", decimal.Decimal("14.20"), -500754589),
        ("date", 17486, -653330422),
        ("time", 81068000000, -662762989),
        ("timestamp", 1510871468000000, -2047944441),
        ("timestamptz", 1510871468000001, -1207196810),
        ("timestamp_ns", 1510871468000001001, -1207196810),
        ("string", "iceberg", 1210000089),
        ("uuid", uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), 1488055340),
        ("fixed[4]", b"\x00\x01\x02\x03", -188683207),
        ("binary", b"\x00\x01\x02\x03", -188683207),
    ],
)
def test_hashes_are_those_of_the_specification(kind: str, value: Any, hashed: int) -> None:
    source = parse_type(kind)
    column = pa.array([as_arrow(value, source)], arrow_type(source))
    buckets = 1_000_003
    found = transformed(Transform("bucket", buckets), column)
    assert found.to_pylist() == [(hashed & 0x7FFFFFFF) % buckets]


def test_slices_of_columns_are_transformed_alone() -> None:
    text = pa.array(["abc", "iceberg", None, "x"]).slice(1, 2)
    assert transformed(Transform("truncate", 3), text).to_pylist() == ["ice", None]
    assert transformed(Transform("bucket", 1_000_003), text).to_pylist() == [
        1210000089 % 1_000_003,
        None,
    ]
