"""What Spark's filters select in Arrow, null by null as in SQL."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from tideline.spark.read.pushed_filters import pushed_filter

DAY = dt.date(2024, 1, 1)
ROWS = pa.table(
    {
        "n": pa.array([1, 2, 3, None], pa.int64()),
        "s": pa.array(["ab", "b", "é", None]),
        "b": pa.array([True, False, None, None]),
        "day": pa.array([DAY, dt.date(2024, 1, 2), None, None]),
        "x": pa.array([1.5, float("nan"), None, 0.0]),
        "d": pa.array([Decimal("1.50"), None, None, None], pa.decimal128(10, 2)),
        "small": pa.array([1, 2, None, None], pa.int8()),
        "st": pa.array([{"n": 1}, None, None, None]),
    }
)


@pytest.mark.parametrize(
    ("filters", "positions"),
    [
        ([EqualTo(("n",), 2)], [1]),
        ([Not(EqualTo(("n",), 2))], [0, 2]),
        ([EqualNullSafe(("n",), 2)], [1]),
        ([EqualNullSafe(("n",), None)], [3]),
        ([GreaterThan(("n",), 1)], [1, 2]),
        ([GreaterThanOrEqual(("n",), 2), LessThan(("n",), 3)], [1]),
        ([LessThanOrEqual(("s",), "b")], [0, 1]),
        ([In(("n",), (1, None))], [0]),
        ([In(("n",), ())], []),
        ([Not(In(("n",), (1, 2)))], [2]),
        ([IsNull(("b",))], [2, 3]),
        ([IsNotNull(("st",))], [0]),
        ([EqualTo(("b",), True)], [0]),
        ([Not(EqualTo(("b",), True))], [1]),
        ([StringStartsWith(("s",), "a")], [0]),
        ([StringEndsWith(("s",), "b")], [0, 1]),
        ([StringContains(("s",), "é")], [2]),
        ([EqualTo(("day",), DAY)], [0]),
        ([EqualTo(("small",), 2)], [1]),
    ],
)
def test_rows_are_selected_as_in_sql(filters: list[Filter], positions: list[int]) -> None:
    found = pushed_filter(filters, ROWS.schema)
    assert found is not None
    numbered = ROWS.append_column("at", pa.array(range(ROWS.num_rows)))
    assert numbered.filter(found.expression)["at"].to_pylist() == positions
    assert found.columns == {condition.attribute[0] for condition in map(_plain, filters)}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(("x",), 1.5),
        EqualTo(("d",), Decimal("1.50")),
        EqualTo(("st", "n"), 1),
        EqualTo(("unknown",), 1),
        EqualTo(("n",), None),
        EqualTo(("n",), True),
        EqualTo(("small",), 1000),
        GreaterThan(("day",), dt.datetime(2024, 1, 1)),
        Not(EqualNullSafe(("n",), 2)),
        Not(In(("n",), (1, None))),
        Not(GreaterThan(("n",), 1)),
        StringContains(("n",), "1"),
    ],
)
def test_what_could_mean_another_thing_is_left_to_spark(condition: Filter) -> None:
    assert pushed_filter([condition], ROWS.schema) is None


def _plain(condition: Filter) -> Filter:
    return condition.child if isinstance(condition, Not) else condition
