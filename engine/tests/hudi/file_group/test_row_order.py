"""Rows in linear order and along curves, and cutting an order into parts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.hudi.file_group.row_order import RowOrder
from tideline.hudi.table.row_layout import RowLayout
from tideline.sorting.sorted_parts import part_numbers, split_keys

CURVES = [RowLayout.ZORDER, RowLayout.HILBERT]
ROWS = st.lists(
    st.tuples(st.none() | st.integers(-5, 5), st.none() | st.text("ab", max_size=2)),
    min_size=1,
    max_size=30,
)


def table(rows: list[tuple[int | None, str | None]]) -> pa.Table:
    return pa.table(
        {
            "n": pa.array([n for n, _ in rows], pa.int64()),
            "t": pa.array([t for _, t in rows], pa.string()),
        }
    )


def python_key(row: tuple[int | None, str | None]) -> tuple[object, ...]:
    """As Spark and Hudi sort: nulls first."""
    return tuple((value is not None, value) if value is not None else (False,) for value in row)


@given(ROWS)
def test_linear_order_is_that_of_python_with_nulls_first(
    rows: list[tuple[int | None, str | None]],
) -> None:
    order = RowOrder(("n", "t")).indices(table(rows)).to_pylist()
    assert [rows[index] for index in order] == sorted(rows, key=python_key)


@pytest.mark.parametrize("layout", list(RowLayout))
@given(rows=ROWS)
def test_every_order_is_a_permutation(
    layout: RowLayout, rows: list[tuple[int | None, str | None]]
) -> None:
    order = RowOrder(("n", "t"), layout).indices(table(rows)).to_pylist()
    assert sorted(order) == list(range(len(rows)))


@given(rows=ROWS, parts=st.integers(1, 5))
def test_parts_follow_one_another_in_the_order(
    rows: list[tuple[int | None, str | None]], parts: int
) -> None:
    order = RowOrder(("n", "t"))
    keys = order.keys(table(rows))
    numbers = part_numbers(keys, split_keys(keys, parts))
    assert numbers.min() >= 0
    assert numbers.max() < parts
    arranged = numbers[order.indices(table(rows)).to_numpy()]
    assert (np.diff(arranged) >= 0).all()


@pytest.mark.parametrize("layout", CURVES)
def test_a_curve_keeps_both_columns_together_where_linear_order_keeps_one(
    layout: RowLayout,
) -> None:
    generator = np.random.default_rng(7)
    rows = pa.table({"a": generator.random(10_000) ** 3, "b": generator.random(10_000)})

    def spread(order: RowOrder) -> float:
        """How much of column b's range a hundredth of the rows spans, on average."""
        values = rows.take(order.indices(rows)).column("b").to_numpy().reshape(100, -1)
        return float(np.mean(values.max(axis=1) - values.min(axis=1)))

    assert spread(RowOrder(("a", "b"), layout)) < 0.3 < spread(RowOrder(("a", "b")))
