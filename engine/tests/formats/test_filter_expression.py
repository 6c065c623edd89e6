"""Conditions in SQL as expressions of Arrow: they select what DuckDB selects."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.errors import ConfigError
from tideline.formats.filter_expression import UnsuitedValueError, sql_expression
from tideline.formats.row_filter import RowFilter

_NAN = float("nan")
_MOMENTS = [dt.datetime(2020, 1, 1, 10), dt.datetime(1969, 5, 1), None, dt.datetime(2020, 1, 2)]
_ROWS = pa.table(
    {
        "number": [0, 1, 2, 3],
        "whole": [1, 2, None, -4],
        "real": [1.0, _NAN, None, -0.0],
        "single": pa.array([0.1, _NAN, None, 0.0], pa.float32()),
        "text": ["a", "ab", None, "é'"],
        "bytes": [b"a", b"\xff", None, b""],
        "flag": [True, False, None, True],
        "day": [moment and moment.date() for moment in _MOMENTS],
        "moment": pa.array(_MOMENTS, pa.timestamp("us")),
        "utc": pa.array(_MOMENTS, pa.timestamp("us", "UTC")),
        "money": pa.array([Decimal("1.10"), Decimal(-2), None, Decimal(0)], pa.decimal128(10, 2)),
        "parts": [{"a": 1}, {"a": None}, None, {"a": 2}],
    }
)
_VALUES = {
    "whole": ["1", "2", "-4", "99"],
    "real": ["0", "1", "1.5", "0.0"],
    "single": ["0.5", "0", "7"],
    "text": ["'a'", "'ab'", "''", "'é'''"],
    "flag": ["true", "false"],
    "day": ["date '2020-01-01'", "'2020-01-02'"],
    "moment": ["timestamp '2020-01-01 10:00:00'", "'2020-01-02'"],
    "utc": ["timestamp '2020-01-01 10:00:00'", "'2020-01-01T12:00:00+02:00'"],
    "money": ["1.1", "-2", "0.00"],
    "parts.a": ["1", "2"],
}


@st.composite
def _predicates(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(sorted(_VALUES)))
    values = st.sampled_from(_VALUES[column])
    kind = draw(st.sampled_from(["compared", "mirrored", "in", "between", "null", "like"]))
    operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    negated = draw(st.sampled_from(["", "not "]))
    if kind == "compared":
        return f"{column} {operator} {draw(values)}"
    if kind == "mirrored":
        return f"{draw(values)} {operator} {column}"
    if kind == "in":
        listed = ", ".join(draw(st.lists(values, min_size=1, max_size=3)))
        return f"{column} {negated}in ({listed})"
    if kind == "between":
        return f"{column} {negated}between {draw(values)} and {draw(values)}"
    if kind == "like":
        return f"text {negated}like '{draw(st.sampled_from(['a%', 'ab', '%', 'ab%', 'b%']))}'"
    return f"{column} is {negated}null"


_CONDITIONS = st.recursive(
    _predicates(),
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("not ({})".format, inner),
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"python_enable_replacements": False}) as connection:
        connection.execute("set TimeZone = 'UTC'")
        connection.register("source", _ROWS)
        connection.execute("create table rows as select * from source")
        yield connection


@settings(max_examples=200, deadline=None)
@given(condition=_CONDITIONS)
def test_a_condition_selects_what_duckdb_selects(
    database: duckdb.DuckDBPyConnection, condition: str
) -> None:
    wanted = database.execute(f"select number from rows where {condition}").fetchall()
    found = _ROWS.filter(sql_expression(condition, _ROWS.schema))["number"].to_pylist()
    assert found == sorted(number for (number,) in wanted)


@pytest.mark.parametrize(
    ("condition", "numbers"),
    [
        ("WHOLE > 1", [1]),
        ("bytes = X'ff'", [1]),
        ("real is nan", [1]),
        ("not real is nan", [0, 2, 3]),
        ("parts.A = 1", [0]),
        ("`whole` = 1", [0]),
        # As in Spark: 0.1 is a double, and no FLOAT is that.
        ("single = 0.1", []),
        ("single > 0.1", [0, 1]),
        ("true", [0, 1, 2, 3]),
    ],
)
def test_what_duckdb_spells_otherwise(condition: str, numbers: list[int]) -> None:
    found = _ROWS.filter(sql_expression(condition, _ROWS.schema))["number"].to_pylist()
    assert found == numbers


@pytest.mark.parametrize(
    "condition",
    [
        "whole > 1.5",
        "whole = '1'",
        "text > 1",
        "text = date '2020-01-01'",
        "money = 1.005",
        "day > '2020'",
        "moment > 'soon'",
        "moment > '2020-01-01T00:00:00+01:00'",
        "flag = 1",
        "whole > 99999999999999999999",
        "whole like 'a%'",
        "whole is nan",
        "parts = 1",
    ],
)
def test_a_value_that_takes_a_conversion_is_left_to_others(condition: str) -> None:
    with pytest.raises(UnsuitedValueError):
        sql_expression(condition, _ROWS.schema)


@pytest.mark.parametrize(
    "condition", ["nothing = 1", "parts.b = 1", "whole >", "lower(text) = 'a'"]
)
def test_what_is_no_condition_on_these_rows_is_refused(condition: str) -> None:
    with pytest.raises(ConfigError):
        sql_expression(condition, _ROWS.schema)


def test_a_condition_in_sql_rules_out_what_cannot_have_such_rows() -> None:
    found = RowFilter.of("whole in (5, 7) and text like 'a%'", _ROWS.schema)
    assert found.columns == {"whole", "text"}
    expressions = [sql_expression(f"whole >= {low} and whole <= {low + 1}", _ROWS.schema)
                   for low in (1, 4, 6, 8)]  # fmt: skip
    assert found.possible(expressions) == [1, 2]


def test_a_bound_that_the_condition_cannot_be_asked_of_rules_nothing_out() -> None:
    """Not every whole number is one of double precision."""
    number = pc.field("n")
    found = RowFilter.of(number.cast(pa.float64()) == 1, pa.schema([("n", pa.int64())]))
    assert found.possible([number == 2, number == 2**63 - 1]) == [0, 1]
    assert found.may_hold([[number == 2**63 - 1]])
