"""Filters of planned queries mean in Arrow what they mean in Spark, or are left out."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from tideline.spark.read.planned_filters import planned_filter

ROWS = pa.table(
    {
        "n": pa.array([1, 2, None, 4], pa.int64()),
        "s": ["ab", "b\U0010ffff", None, "\ud7ff"],
        "day": pa.array([1, 2, None, 4], pa.int32()).cast(pa.date32()),
        "at": pa.array([1, 2, None, 4000], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "ms": pa.array([1, 2, None, 4], pa.int64()).cast(pa.timestamp("ms", "UTC")),
        "b": [True, False, None, True],
        "f": [1.0, 2.0, None, 4.0],
    }
)


def one(kind: str, column: str, value: Any = None) -> dict[str, Any]:
    return {"filter": kind, "column": column, "value": value}


def joined(kind: str, *parts: Any) -> dict[str, Any]:
    return {"filter": kind, "parts": list(parts)}


@pytest.mark.parametrize(
    ("item", "rows"),
    [
        (one("EqualTo", "n", 2), [1]),
        (one("GreaterThan", "n", 1), [1, 3]),
        (one("LessThanOrEqual", "n", 2), [0, 1]),
        (one("In", "n", [1, None, 4]), [0, 3]),
        (one("IsNull", "n"), [2]),
        (one("IsNotNull", "n"), [0, 1, 3]),
        (one("EqualNullSafe", "n"), [2]),
        (one("EqualNullSafe", "n", 4), [3]),
        (one("EqualTo", "day", 4), [3]),
        (one("GreaterThanOrEqual", "at", 2), [1, 3]),
        (one("EqualTo", "ms", 2000), [1]),
        (one("EqualTo", "b", True), [0, 3]),
        (one("StringStartsWith", "s", "b"), [1]),
        (one("StringStartsWith", "s", "b\U0010ffff"), [1]),
        (one("StringStartsWith", "s", "\ud7ff"), [3]),
        (one("StringStartsWith", "s", ""), [0, 1, 3]),
        (one("StringEndsWith", "s", "b"), [0]),
        (one("StringContains", "s", "b"), [0, 1]),
        (joined("Not", one("EqualTo", "n", 2)), [0, 3]),
        (joined("Not", one("In", "n", [2, 4])), [0]),
        (joined("Not", one("IsNull", "n")), [0, 1, 3]),
        (joined("Not", one("StringStartsWith", "s", "b")), [0, 3]),
        (joined("Or", one("EqualTo", "n", 1), one("EqualTo", "s", "ab")), [0]),
        (joined("And", one("GreaterThan", "n", 1), None), [1, 3]),
        (joined("And", one("GreaterThan", "n", 1), one("EqualTo", "f", "1.0")), [1, 3]),
    ],
    ids=str,
)
def test_rows_that_are_selected(item: Any, rows: list[int]) -> None:
    condition = planned_filter(json.dumps([item, None]), ROWS.schema)
    numbered = ROWS.append_column("row", pa.array(range(4)))
    assert numbered.filter(condition)["row"].to_pylist() == rows


@pytest.mark.parametrize(
    "item",
    [
        None,
        one("EqualTo", "n", "1"),
        one("EqualTo", "n", True),
        one("EqualTo", "n", 1 << 63),
        one("EqualTo", "n"),
        one("EqualTo", "other", 1),
        one("EqualTo", "f", "1.0"),
        one("EqualTo", "ms", 2001),
        one("In", "n", [1, "x"]),
        one("Unknown", "n", 1),
        joined("Or", one("EqualTo", "n", 1), None),
        joined("Not", joined("And", one("EqualTo", "n", 1), one("EqualTo", "n", 2))),
        joined("Not", one("In", "n", [1, None])),
        joined("Not", one("EqualTo", "f", "1.0")),
    ],
    ids=str,
)
def test_what_is_left_out(item: Any) -> None:
    assert planned_filter(json.dumps([item]), ROWS.schema) is None
