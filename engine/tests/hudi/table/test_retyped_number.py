"""Values of columns that became text or decimals, as Hudi's Java has them."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from tideline.hudi.table.stored_value import converted_array

# What Java's Double.toString says.
JAVAS = {
    1.0: "1.0",
    -2.5: "-2.5",
    0.001: "0.001",
    0.00012: "1.2E-4",
    1234567.0: "1234567.0",
    9999999.5: "9999999.5",
    1e7: "1.0E7",
    123456789.25: "1.2345678925E8",
    1e10: "1.0E10",
    -0.0: "-0.0",
    100.5: "100.5",
    float("inf"): "Infinity",
    float("-inf"): "-Infinity",
}


def test_floating_numbers_become_javas_text() -> None:
    texts = converted_array(pa.array([*JAVAS, None, 1.0], pa.float64()), pa.string())
    assert texts.to_pylist() == [*JAVAS.values(), None, "1.0"]
    assert converted_array(pa.array([float("nan")]), pa.string()).to_pylist() == ["NaN"]


def test_the_shorter_kind_keeps_its_few_digits() -> None:
    numbers = pa.array([0.1, 1.1, 16777216.0, None], pa.float32())
    texts = converted_array(numbers, pa.string())
    assert texts.to_pylist() == ["0.1", "1.1", "1.6777216E7", None]


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (pa.array([7, None, 12345678], pa.int32()), ["7.00", None, "12345678.00"]),
        (pa.array([1.005, 1e3, None]), ["1.01", "1000.00", None]),
        (pa.array([0.125], pa.float32()), ["0.13"]),
        (pa.array(["2.345", "1e2", None]), ["2.35", "100.00", None]),
    ],
    ids=["whole", "double", "float", "text"],
)
def test_numbers_and_text_become_decimals_rounded_half_up(
    stored: pa.Array, expected: list[str | None]
) -> None:
    found = converted_array(stored, pa.decimal128(10, 2)).to_pylist()
    assert found == [None if text is None else Decimal(text) for text in expected]


@pytest.mark.parametrize("stored", [["x"], ["123456789.00"], ["NaN"]])
def test_what_is_no_such_decimal_is_an_error(stored: list[str]) -> None:
    with pytest.raises(pa.ArrowInvalid):
        converted_array(pa.array(stored), pa.decimal128(10, 2))
