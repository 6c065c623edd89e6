"""A filter tied to a schema: columns by id, values in their types, no NOT left.

The same shape serves for partitions, where a reference is a position in the partition tuple (see
projection.py). Whether a predicate may hold is up to the evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tideline.errors import ConfigError
from tideline.formats.filter import And, Constant, Filter, Not, Operator, Or, Predicate
from tideline.iceberg.metadata.field_type import NestedField, PrimitiveType, StructType, parts_of
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.scan.literal_value import LiteralValue, literal_value

_TEXTS = ("string", "binary")


@dataclass(frozen=True, slots=True)
class BoundPredicate:
    """What is required of one column, or of one partition value."""

    reference: int
    type: PrimitiveType
    operator: Operator
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds; with no parts, always."""

    parts: tuple[BoundFilter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Some part holds; with no parts, never."""

    parts: tuple[BoundFilter, ...]


BoundFilter: TypeAlias = BoundPredicate | AllOf | AnyOf
ALWAYS = AllOf(())
NEVER = AnyOf(())


def bind(condition: Filter, schema: Schema) -> BoundFilter:
    """Names are found as written, else regardless of case.

    Raises ConfigError for an unknown column, one that has no single value in a row, or a value
    that does not fit the column's type.
    """
    return _bind(condition, schema, negated=False)


def all_of(*parts: BoundFilter) -> BoundFilter:
    """Their conjunction, as simple as it gets."""
    kept = [part for part in parts if part != ALWAYS]
    if NEVER in kept:
        return NEVER
    return kept[0] if len(kept) == 1 else AllOf(tuple(kept))


def any_of(*parts: BoundFilter) -> BoundFilter:
    """Their disjunction, as simple as it gets."""
    kept = [part for part in parts if part != NEVER]
    if ALWAYS in kept:
        return ALWAYS
    return kept[0] if len(kept) == 1 else AnyOf(tuple(kept))


def may_hold(condition: BoundFilter, predicate_may: Callable[[BoundPredicate], bool]) -> bool:
    """Whether the filter may hold, given for each predicate whether it may."""
    match condition:
        case AllOf(parts):
            return all(may_hold(part, predicate_may) for part in parts)
        case AnyOf(parts):
            return any(may_hold(part, predicate_may) for part in parts)
        case _:
            return predicate_may(condition)


def _bind(condition: Filter, schema: Schema, *, negated: bool) -> BoundFilter:
    match condition:
        case Constant(value):
            return ALWAYS if value is not negated else NEVER
        case Not(operand):
            return _bind(operand, schema, negated=not negated)
        case And(left, right) | Or(left, right):
            sides = (_bind(side, schema, negated=negated) for side in (left, right))
            return (all_of if isinstance(condition, And) is not negated else any_of)(*sides)
        case Predicate(column, operator, _):
            field, type_ = _column(column, schema)
            wanted = operator.negated if negated else operator
            values = [literal_value(literal, type_, column) for literal in condition.values]
            return _predicate(field.field_id, type_, wanted, values, column)


def _column(name: str, schema: Schema) -> tuple[NestedField, PrimitiveType]:
    field = schema.find(name) or schema.find(name, case_sensitive=False)
    if field is None:
        known = ", ".join(nested_field.name for nested_field in schema.fields)
        raise ConfigError(f"the filter names an unknown column; the columns are {known}",
                          value=name)  # fmt: skip
    if parts_of(field.type) or not _is_single(field, schema):
        raise ConfigError(
            "a filter cannot compare a whole struct, or values in a list or map", value=name
        )
    return field, field.type  # type: ignore[return-value]


def _is_single(field: NestedField, schema: Schema) -> bool:
    """Whether a row has one value of it: it lies in nothing but structs."""

    def below(fields: tuple[NestedField, ...]) -> bool:
        return any(
            nested_field.field_id == field.field_id
            or (isinstance(nested_field.type, StructType) and below(nested_field.type.fields))
            for nested_field in fields
        )

    return below(schema.fields)


def _predicate(
    field_id: int,
    type_: PrimitiveType,
    operator: Operator,
    values: list[LiteralValue],
    column: str,
) -> BoundFilter:
    if operator in (Operator.IS_NAN, Operator.NOT_NAN):
        if str(type_) not in ("float", "double"):
            return NEVER if operator is Operator.IS_NAN else _not_null(field_id, type_)
    elif operator in (Operator.STARTS_WITH, Operator.NOT_STARTS_WITH):
        if str(type_) not in _TEXTS:
            raise ConfigError(
                f"LIKE compares strings, but the column is of type {type_}", value=column
            )
    elif operator in (Operator.EQUAL, Operator.IN, Operator.NOT_EQUAL, Operator.NOT_IN):
        return _equality(field_id, type_, operator, values)
    elif values and not values[0].is_exact:
        # Between two points of the grid "below" and "not above" are the same.
        is_upper = operator in (Operator.LESS, Operator.LESS_OR_EQUAL)
        operator = Operator.LESS_OR_EQUAL if is_upper else Operator.GREATER
    return BoundPredicate(field_id, type_, operator, tuple(value.value for value in values))


def _equality(
    field_id: int, type_: PrimitiveType, operator: Operator, values: list[LiteralValue]
) -> BoundFilter:
    possible = tuple(
        dict.fromkeys(value.value for value in values if value.is_exact and value.fits)
    )
    is_positive = operator in (Operator.EQUAL, Operator.IN)
    if not possible:
        return NEVER if is_positive else _not_null(field_id, type_)
    if len(possible) == 1:
        single = Operator.EQUAL if is_positive else Operator.NOT_EQUAL
        return BoundPredicate(field_id, type_, single, possible)
    several = Operator.IN if is_positive else Operator.NOT_IN
    return BoundPredicate(field_id, type_, several, possible)


def _not_null(field_id: int, type_: PrimitiveType) -> BoundPredicate:
    return BoundPredicate(field_id, type_, Operator.NOT_NULL)
