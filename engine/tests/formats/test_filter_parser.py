"""Filters as SQL text: what is understood, and where the parser points when it is not."""

from __future__ import annotations

import pytest

from tideline.errors import ConfigError
from tideline.formats.filter import (
    And,
    Constant,
    Filter,
    Literal,
    LiteralKind,
    Not,
    Operator,
    Or,
    Predicate,
)
from tideline.formats.filter_parser import parse_filter

NUMBER, STRING = LiteralKind.NUMBER, LiteralKind.STRING


def is_(column: str, operator: Operator, *values: Literal) -> Predicate:
    return Predicate(column, operator, values)


def number(text: str) -> Literal:
    return Literal(NUMBER, text)


def text(value: str) -> Literal:
    return Literal(STRING, value)


A = is_("a", Operator.EQUAL, number("1"))
B = is_("b", Operator.EQUAL, number("2"))
C = is_("c", Operator.IS_NULL)


@pytest.mark.parametrize(
    ("sql", "parsed"),
    [
        ("a = 1", A),
        ("1 = a", A),
        ("a==1", A),
        ("(a = 1)", A),
        ("a <> 1", is_("a", Operator.NOT_EQUAL, number("1"))),
        ("5 > a", is_("a", Operator.LESS, number("5"))),
        ("5 <= a", is_("a", Operator.GREATER_OR_EQUAL, number("5"))),
        ("a >= -1.5e3", is_("a", Operator.GREATER_OR_EQUAL, number("-1.5e3"))),
        ("a = 1 OR b = 2 AND c IS NULL", Or(A, And(B, C))),
        ("(a = 1 or b = 2) and c is null", And(Or(A, B), C)),
        ("NOT a = 1 AND b = 2", And(Not(A), B)),
        ("not (a = 1 and b = 2)", Not(And(A, B))),
        ("a.b.c is not null", is_("a.b.c", Operator.NOT_NULL)),
        ("`odd name`.`it``s` is nan", is_("odd name.it`s", Operator.IS_NAN)),
        ("größe is not nan", is_("größe", Operator.NOT_NAN)),
        ("a in (1, 'x''y')", is_("a", Operator.IN, number("1"), text("x'y"))),
        ("a not in (1)", Not(is_("a", Operator.IN, number("1")))),
        (
            "a between 1 and 2 and b = 2",
            And(
                And(
                    is_("a", Operator.GREATER_OR_EQUAL, number("1")),
                    is_("a", Operator.LESS_OR_EQUAL, number("2")),
                ),
                B,
            ),
        ),
        ("a like 'x%'", is_("a", Operator.STARTS_WITH, text("x"))),
        ("a like 'x\\%%'", is_("a", Operator.STARTS_WITH, text("x%"))),
        ("a like 'x'", is_("a", Operator.EQUAL, text("x"))),
        ("a like '%'", is_("a", Operator.STARTS_WITH, Literal(LiteralKind.STRING, ""))),
        ("a not like 'x%%'", Not(is_("a", Operator.STARTS_WITH, text("x")))),
        ("a = true", is_("a", Operator.EQUAL, Literal(LiteralKind.BOOLEAN, "true"))),
        ("TRUE = a", is_("a", Operator.EQUAL, Literal(LiteralKind.BOOLEAN, "true"))),
        ("true", Constant(True)),
        ("false or a = 1", Or(Constant(False), A)),
        (
            "date >= DATE '2026-11-01'",
            is_("date", Operator.GREATER_OR_EQUAL, Literal(LiteralKind.DATE, "2026-11-01")),
        ),
        (
            "x = X'0aFF' and time < time '10:00'",
            And(
                is_("x", Operator.EQUAL, Literal(LiteralKind.BINARY, "0aFF")),
                is_("time", Operator.LESS, Literal(LiteralKind.TIME, "10:00")),
            ),
        ),
    ],
)
def test_sql_is_understood(sql: str, parsed: Filter) -> None:
    assert parse_filter(sql) == parsed


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("", "character 1: expected a column, found the end"),
        ("a", "character 2: expected a comparison, IN, BETWEEN, LIKE or IS, found the end"),
        ("a = ", "expected a value, found the end"),
        ("a = b", "character 5: expected a value, found b"),
        ("a = NULL", "for null, write IS NULL"),
        ("a = 1 b = 2", "character 7: expected AND, OR or the end, found b"),
        ("(a = 1", "expected \\), found the end"),
        ("a in ()", "expected a value, found \\)"),
        ("a between 1, 2", "expected AND, found ,"),
        ("a not = 1", "expected IN, BETWEEN or LIKE"),
        ("a is 5", "expected NULL or NAN"),
        ("a like '%x'", "only wildcard is a % at its end"),
        ("a like 'x_'", "only wildcard is a % at its end"),
        ("a like 5", "only wildcard is a % at its end"),
        ("a = 'open", "cannot be read at character 5"),
        ('"a b" = 1', "character 1: quote names with ` and texts with '"),
        ("a = 1; drop", "cannot be read at character 6"),
        ("and = 1", "expected a column, found and"),
    ],
)
def test_a_mistake_is_shown_where_it_is(sql: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_filter(sql)


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("NOT ", ""), ("NOT (", ")")])
def test_a_filter_is_nested_only_so_deep(opening: str, closing: str) -> None:
    levels = 100 // len(opening.split())
    assert parse_filter(f"{opening * levels}a = 1{closing * levels}")
    for more in (levels + 1, 50 * levels):
        with pytest.raises(ConfigError, match="nested deeper than 100 levels"):
            parse_filter(f"{opening * more}a = 1{closing * more}")


def test_levels_next_to_each_other_do_not_add_up() -> None:
    for word in ("AND", "OR"):
        found = parse_filter(f" {word} ".join(["(NOT (a = 1))"] * 5_000))
        assert repr(found).count("Not(") == 5_000
