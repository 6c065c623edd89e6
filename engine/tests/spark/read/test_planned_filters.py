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


def comparison(kind: str, column: str, value: Any = None) -> dict[str, Any]:
    return {"filter": kind, "column": column, "value": value}


def joined(kind: str, *parts: Any) -> dict[str, Any]:
    return {"filter": kind, "parts": list(parts)}


@pytest.mark.parametrize(
    ("item", "rows"),
    [
        (comparison("EqualTo", "n", 2), [1]),
        (comparison("GreaterThan", "n", 1), [1, 3]),
        (comparison("LessThanOrEqual", "n", 2), [0, 1]),
        (comparison("In", "n", [1, None, 4]), [0, 3]),
        (comparison("IsNull", "n"), [2]),
        (comparison("IsNotNull", "n"), [0, 1, 3]),
        (comparison("EqualNullSafe", "n"), [2]),
        (comparison("EqualNullSafe", "n", 4), [3]),
        (comparison("EqualTo", "day", 4), [3]),
        (comparison("GreaterThanOrEqual", "at", 2), [1, 3]),
        (comparison("EqualTo", "ms", 2000), [1]),
        (comparison("EqualTo", "b", True), [0, 3]),
        (comparison("StringStartsWith", "s", "b"), [1]),
        (comparison("StringStartsWith", "s", "b\U0010ffff"), [1]),
        (comparison("StringStartsWith", "s", "\ud7ff"), [3]),
        (comparison("StringStartsWith", "s", ""), [0, 1, 3]),
        (comparison("StringEndsWith", "s", "b"), [0]),
        (comparison("StringContains", "s", "b"), [0, 1]),
        (joined("Not", comparison("EqualTo", "n", 2)), [0, 3]),
        (joined("Not", comparison("In", "n", [2, 4])), [0]),
        (joined("Not", comparison("IsNull", "n")), [0, 1, 3]),
        (joined("Not", comparison("StringStartsWith", "s", "b")), [0, 3]),
        (joined("Or", comparison("EqualTo", "n", 1), comparison("EqualTo", "s", "ab")), [0]),
        (joined("And", comparison("GreaterThan", "n", 1), None), [1, 3]),
        (
            joined("And", comparison("GreaterThan", "n", 1), comparison("EqualTo", "f", "1.0")),
            [1, 3],
        ),
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
        comparison("EqualTo", "n", "1"),
        comparison("EqualTo", "n", True),
        comparison("EqualTo", "n", 1 << 63),
        comparison("EqualTo", "n"),
        comparison("EqualTo", "other", 1),
        comparison("EqualTo", "f", "1.0"),
        comparison("EqualTo", "ms", 2001),
        comparison("In", "n", [1, "x"]),
        comparison("Unknown", "n", 1),
        joined("Or", comparison("EqualTo", "n", 1), None),
        joined("Not", joined("And", comparison("EqualTo", "n", 1), comparison("EqualTo", "n", 2))),
        joined("Not", comparison("In", "n", [1, None])),
        joined("Not", comparison("EqualTo", "f", "1.0")),
    ],
    ids=str,
)
def test_what_is_left_out(item: Any) -> None:
    assert planned_filter(json.dumps([item]), ROWS.schema) is None
