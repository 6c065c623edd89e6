"""A filter over rows as people write it: predicates on named columns, joined by AND, OR and NOT.

`parse_filter` (filter_parser.py) makes one from SQL. `bind` (iceberg.scan.bound_filter) ties it to
an Iceberg schema, `filter_expression` (filter_expression.py) to one of Arrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Operator(Enum):
    """What a predicate requires of a column; nulls satisfy none but `IS_NULL`, as in SQL."""

    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    EQUAL = "="
    NOT_EQUAL = "!="
    IN = "in"
    NOT_IN = "not in"
    IS_NULL = "is null"
    NOT_NULL = "is not null"
    IS_NAN = "is nan"
    NOT_NAN = "is not nan"
    STARTS_WITH = "starts with"
    NOT_STARTS_WITH = "does not start with"

    @property
    def negated(self) -> Operator:
        """What holds for the rows for which this is false."""
        return _NEGATED[self]

    @property
    def mirrored(self) -> Operator:
        """The comparison with its sides exchanged."""
        return _MIRRORED.get(self, self)


class LiteralKind(Enum):
    """How a value was written."""

    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    BINARY = "binary"


@dataclass(frozen=True, slots=True)
class Literal:
    """A value as written; what it means is decided by the column's type."""

    kind: LiteralKind
    text: str


@dataclass(frozen=True, slots=True)
class Predicate:
    """One column, by its dotted name, and what is required of it."""

    column: str
    operator: Operator
    values: tuple[Literal, ...] = ()


@dataclass(frozen=True, slots=True)
class And:
    """Both."""

    left: Filter
    right: Filter


@dataclass(frozen=True, slots=True)
class Or:
    """Either."""

    left: Filter
    right: Filter


@dataclass(frozen=True, slots=True)
class Not:
    """The rows for which `operand` is false, which are not those for which it is unknown."""

    operand: Filter


@dataclass(frozen=True, slots=True)
class Constant:
    """All rows, or none."""

    value: bool


Filter: TypeAlias = Predicate | And | Or | Not | Constant
ALL_ROWS = Constant(True)

_PAIRS = (
    (Operator.LESS, Operator.GREATER_OR_EQUAL),
    (Operator.GREATER, Operator.LESS_OR_EQUAL),
    (Operator.EQUAL, Operator.NOT_EQUAL),
    (Operator.IN, Operator.NOT_IN),
    (Operator.IS_NULL, Operator.NOT_NULL),
    (Operator.IS_NAN, Operator.NOT_NAN),
    (Operator.STARTS_WITH, Operator.NOT_STARTS_WITH),
)
_NEGATED = dict(_PAIRS) | {second: first for first, second in _PAIRS}
_MIRRORED = {
    Operator.LESS: Operator.GREATER,
    Operator.GREATER: Operator.LESS,
    Operator.LESS_OR_EQUAL: Operator.GREATER_OR_EQUAL,
    Operator.GREATER_OR_EQUAL: Operator.LESS_OR_EQUAL,
}
