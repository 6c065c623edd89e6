"""Types of columns that nobody declared, so that no value of a text file changes its meaning.

Spark proposes a type from the values of one batch; here it is decided by what the type would do to
them:

1. A key is text: `007` is not `7`. In JSON, which tells numbers from texts, keys that are whole
   numbers of 64 bits stay numbers, and so do columns with some numbers and some texts:
   the texts are set aside, or `1` and `"1"` would be one row.
2. A column of csv with a numeral that a number would not give back (`007`, `+1`, `1e3`, more digits
   than a number has) is text; so is one with dates or times in short forms (`2024-01`, `12:30`).
3. Of a column with values of several kinds most of them decide: the others do not fit, and are set
   aside as they would be in a later batch. Where no kind has more than half, it is text.
4. A column of JSON with a number of more digits than a double gives back is text, unless all are
   whole numbers of 64 bits; so is such a field of an object, and such a list.
5. An ordering column with any number is one of numbers, else with any time one of times: as texts
   `10` loses to `9`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tideline.spark.quoting import column_named
from tideline.spark.source_files.nested_numbers import Path, any_at

_LONG, _DOUBLE, _TEXT = T.LongType(), T.DoubleType(), T.StringType()
_NUMBERS = (T.LongType, T.DoubleType, T.DecimalType)
_TIMES = (T.DateType, T.TimestampType, T.TimestampNTZType)

# `$` of Java would stand before a last line break, too, as of a quote that nothing closes.
_WHOLE = r"^(0|-?[1-9][0-9]*)\z"
# Programs write an exponent with a point or a sign before it; codes and serial numbers have none.
_FRACTION = (
    r"^-?(0|[1-9][0-9]*)?\.[0-9]+([eE][+-]?[0-9]+)?\z"
    r"|^-?(0|[1-9][0-9]*)(\.|[eE][+-][0-9]+)\z|^(NaN|-?Inf(inity)?)\z"
)
_NUMERAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?\z"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}"
_NAMED = r"^(NaN|[+-]?Inf(inity)?|[+-]?INF)\z"
_FLAG = r"(?i)^(true|false)\z"
_SAFE_DIGITS = 15
"""So many digits a whole number may have that a double gives back."""
_FRACTION_DIGITS_MAX = 17
"""So many digits programs write of a double."""
_VARIANT_MAX = 1e38
"""Whole numbers below are exact in VARIANT."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The columns, in lower case, that keys are made of and that order rows."""

    keys: frozenset[str] = frozenset()
    ordering: frozenset[str] = frozenset()

    @classmethod
    def of(cls, keys: Sequence[str], ordering: Sequence[str]) -> Roles:
        return cls(*(frozenset(name.lower() for name in names) for names in (keys, ordering)))


NO_ROLES = Roles()


@dataclass(slots=True)
class Kinds:
    """How many values a column has of each kind.

    `loose` are numerals that a number would not give back, `long` whole numbers that a double would
    not. `nested` is the type of the objects, or lists, that a column of JSON has.
    """

    total: int = 0
    whole: int = 0
    long: int = 0
    fraction: int = 0
    loose: int = 0
    day: int = 0
    time: int = 0
    flag: int = 0
    object: int = 0
    array: int = 0
    nested: T.DataType | None = None

    def add(self, other: Kinds) -> None:
        """Count the values of another part of the batch as well."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def numbers(self) -> int:
        return self.whole + self.fraction

    @property
    def times(self) -> int:
        return self.day + self.time

    @property
    def number_type(self) -> T.DataType:
        return _DOUBLE if self.fraction else _LONG

    @property
    def time_type(self) -> T.DataType:
        return T.TimestampType() if self.time else T.DateType()


_COUNTS = ("total", "whole", "long", "fraction", "loose", "day", "time", "flag", "object", "array")


def needs_kinds(kind: T.DataType, name: str, roles: Roles) -> bool:
    """Whether what Spark proposes for a column of JSON is to be looked at value by value."""
    return isinstance(kind, T.StringType) or name.lower() in roles.keys | roles.ordering


def csv_kinds(rows: DataFrame, names: Sequence[str]) -> dict[str, Kinds]:
    """The kinds of the values of these columns, which `rows` have as text."""
    counts = {name: _text_counts(column_named(name)) for name in names}
    return _counted(rows, counts)


def json_kinds(rows: DataFrame, names: Sequence[str]) -> dict[str, Kinds]:
    """The same for columns that `rows` have as VARIANT."""
    counts = {name: _variant_counts(column_named(name)) for name in names}
    found = _counted(rows, counts)
    for name, kinds in found.items():
        most = "OBJECT" if kinds.object * 2 > kinds.total else "ARRAY"
        if max(kinds.object, kinds.array) * 2 > kinds.total:
            kinds.nested = _nested_type(rows, name, most)
    return found


def csv_type(
    name: str, proposed: T.DataType, kinds: Kinds, roles: Roles, *, has_time_formats: bool
) -> T.DataType:
    """The type of a column of csv; `proposed` is Spark's, by the caller's formats of times where
    there are any."""
    if name.lower() in roles.keys:
        return _TEXT
    if isinstance(proposed, _TIMES) and not has_time_formats and kinds.times < kinds.total:
        proposed = _TEXT
    # Java takes more for a number than that: `3f`, `0x1p3`.
    if isinstance(proposed, _NUMBERS) and kinds.numbers + kinds.loose < kinds.total:
        proposed = _TEXT
    if name.lower() in roles.ordering:
        return _ordering_type(proposed, kinds)
    if isinstance(proposed, T.StringType):
        proposed = _type_of_most(kinds)
    if isinstance(proposed, _NUMBERS):
        is_given_back = not kinds.loose and not (kinds.fraction and kinds.long)
        return kinds.number_type if is_given_back and kinds.numbers else _TEXT
    return proposed


def json_type(name: str, proposed: T.DataType, kinds: Kinds, roles: Roles) -> T.DataType:
    """The type of a column of JSON; `proposed` is Spark's."""
    if name.lower() in roles.keys:
        is_text = not kinds.whole or (kinds.numbers == kinds.total and kinds.fraction)
        return _TEXT if is_text else _LONG
    if name.lower() in roles.ordering:
        return _ordering_type(proposed, kinds)
    return _type_of_most(kinds) if isinstance(proposed, T.StringType) else proposed


def is_text_kept(value: Column, kind: T.DataType) -> Column:
    """Whether a text of csv that can be cast to the type is one that it would be inferred from."""
    match kind:
        case T.LongType() | T.IntegerType():
            return value.rlike(_WHOLE)
        case T.DoubleType():
            whole = F.length(F.ltrim(value, F.lit("-"))) <= _SAFE_DIGITS
            fraction = value.rlike(_FRACTION) & (F.length(_digits(value)) <= _FRACTION_DIGITS_MAX)
            return F.when(value.rlike(_WHOLE), whole).otherwise(fraction)
        case T.DateType():
            return value.rlike(_DAY)
    return value.rlike(_DAY) | value.rlike(_TIME)


def is_number_kept(value: Column) -> Column:
    """Whether a VARIANT of JSON is a number that a double gives back.

    VARIANT itself has doubles where a number has an exponent, or more than 38 digits: from 1e38 on
    these are not told apart.
    """
    type_name, text = F.schema_of_variant(value), value.try_cast("string")
    digits, is_named = F.length(_digits(text)), text.rlike(_NAMED)
    return (
        F.when(type_name == "BIGINT", digits <= _SAFE_DIGITS)
        .when(type_name.startswith("DECIMAL"), digits <= _FRACTION_DIGITS_MAX)
        .when(type_name == "DOUBLE", (F.abs(value.try_cast("double")) < _VARIANT_MAX) | is_named)
        .otherwise((type_name == "STRING") & is_named)
    )


def paths_with_long_numbers(rows: DataFrame, paths: Sequence[Path]) -> list[Path]:
    """Those of the paths at whose end, where `rows` have text, is a number that a double, or one of
    64 bits, would not give back."""
    counts = [
        F.count_if(any_at(column_named(path[0]), path[1:], _is_long_number)).alias(str(place))
        for place, path in enumerate(paths)
    ]
    (found,) = rows.agg(*counts).collect()
    return [path for place, path in enumerate(paths) if found[str(place)]]


def _ordering_type(proposed: T.DataType, kinds: Kinds) -> T.DataType:
    if not isinstance(proposed, T.StringType):
        return proposed
    if kinds.numbers or kinds.loose:
        return kinds.number_type
    return kinds.time_type if kinds.times else proposed


def _type_of_most(kinds: Kinds) -> T.DataType:
    for count, kind in (
        (kinds.numbers + kinds.loose, kinds.number_type),
        (kinds.times, kinds.time_type),
        (kinds.flag, T.BooleanType()),
        (max(kinds.object, kinds.array), kinds.nested or _TEXT),
    ):
        if count * 2 > kinds.total:
            return kind
    return _TEXT


def _counted(rows: DataFrame, counts: Mapping[str, Mapping[str, Column]]) -> dict[str, Kinds]:
    if not counts:
        return {}
    sums = [
        F.count_if(condition).alias(f"{place} {kind}")
        for place, conditions in enumerate(counts.values())
        for kind, condition in conditions.items()
    ]
    (found,) = rows.agg(*sums).collect()
    kinds = {name: Kinds() for name in counts}
    in_order = list(kinds.values())
    for label, count in found.asDict().items():
        place, _, kind = label.partition(" ")
        setattr(in_order[int(place)], kind, count)
    return kinds


def _is_long_number(value: Column) -> Column:
    is_whole = ~value.rlike("[.eE]")
    digits_max = F.when(is_whole, _SAFE_DIGITS).otherwise(_FRACTION_DIGITS_MAX)
    return F.length(_digits(value)) > digits_max


def _digits(value: Column) -> Column:
    """The digits of a numeral from the first that is not zero."""
    return F.ltrim(F.regexp_replace(value, r"[eE].*$|[^0-9]", ""), F.lit("0"))


def _text_counts(value: Column) -> dict[str, Column]:
    digits = _digits(value)
    is_whole = value.rlike(_WHOLE) & value.try_cast("bigint").isNotNull()
    is_fraction = value.rlike(_FRACTION) & (F.length(digits) <= _FRACTION_DIGITS_MAX)
    return {
        "total": value.isNotNull(),
        "whole": is_whole,
        "long": is_whole & (F.length(digits) > _SAFE_DIGITS),
        "fraction": is_fraction,
        "loose": value.rlike(_NUMERAL) & ~is_whole & ~is_fraction,
        "day": value.rlike(_DAY) & value.try_cast("date").isNotNull(),
        "time": value.rlike(_TIME) & value.try_cast("timestamp").isNotNull(),
        "flag": value.rlike(_FLAG),
    }


def _variant_counts(value: Column) -> dict[str, Column]:
    kind = F.schema_of_variant(value)
    return {
        "total": value.isNotNull() & (kind != "VOID"),
        "whole": kind == "BIGINT",
        "fraction": kind.rlike("^(DECIMAL|DOUBLE|FLOAT)"),
        "flag": kind == "BOOLEAN",
        "object": kind.startswith("OBJECT"),
        "array": kind.startswith("ARRAY"),
    }


def _nested_type(rows: DataFrame, name: str, beginning: str) -> T.DataType | None:
    """One type for all values of a column of VARIANT whose types begin so."""
    value = column_named(name)
    some = rows.where(F.schema_of_variant(value).startswith(beginning))
    (found,) = some.agg(F.schema_of_variant_agg(value)).collect()
    parts = found[0].split("`")  # names are quoted
    spelled = "`".join(
        part.replace("OBJECT<", "STRUCT<") if place % 2 == 0 else part
        for place, part in enumerate(parts)
    )
    return _as_json_has_it(T.DataType.fromDDL(spelled))


def _as_json_has_it(kind: T.DataType) -> T.DataType | None:
    """The type that Spark gives such values of JSON; None where none of them has a value."""
    match kind:
        case T.StructType():
            parts = [(item.name, _as_json_has_it(item.dataType)) for item in kind]
            kept = [T.StructField(name, part) for name, part in parts if part is not None]
            return T.StructType(kept) if kept else None
        case T.ArrayType():
            element = _as_json_has_it(kind.elementType)
            return None if element is None else T.ArrayType(element)
        case T.NullType():
            return None
        case T.DecimalType() | T.FloatType():
            return _DOUBLE
        case T.VariantType():
            return _TEXT
    return kind
