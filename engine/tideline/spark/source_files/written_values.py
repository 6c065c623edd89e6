"""Later values of columns whose types were inferred: taken where their meaning stays.

A type that nobody declared is no word on other spellings. In csv `007` is a text, which a reader of
whole numbers makes 7; in JSON a double rounds a number of twenty digits. Such columns are read as
they are written (csv as text, doubles of JSON, at any depth, as VARIANT), and cast where the first
batch would have given the same type (`tideline.spark.source_files.column_inference`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tideline.hudi.write.batch_rules import ARRIVAL
from tideline.spark.quoting import column_named
from tideline.spark.source_files.column_inference import is_number_kept, is_text_kept
from tideline.spark.source_files.nested_numbers import any_at, cast_parts, paths_to, with_types

_TIMES = (T.DateType, T.TimestampType)
_CSV_KINDS = (T.LongType, T.IntegerType, T.DoubleType, *_TIMES)


def csv_kept(
    types: Mapping[str, T.DataType], *, has_time_formats: bool, has_number_formats: bool
) -> dict[str, T.DataType]:
    """Those of the types whose values of csv are looked at as text; a caller's formats are not."""
    left_out = (
        *(_TIMES if has_time_formats else ()),
        *((T.DoubleType,) if has_number_formats else ()),
    )
    return {
        name: kind
        for name, kind in types.items()
        if isinstance(kind, _CSV_KINDS) and not isinstance(kind, left_out)
    }


def json_kept(types: Mapping[str, T.DataType]) -> dict[str, T.DataType]:
    """Those of the types that may change a number of JSON, at any depth."""
    return {
        name: kind
        for name, kind in types.items()
        if any(True for _ in paths_to(T.DoubleType, kind))
    }


def csv_written(types: Mapping[str, T.DataType]) -> dict[str, T.DataType]:
    """The types to read columns of csv in, so that they come as they are written."""
    return dict.fromkeys(types, T.StringType())


def json_written(types: Mapping[str, T.DataType]) -> dict[str, T.DataType]:
    """The same for columns of JSON."""
    return {
        name: with_types(kind, dict.fromkeys(paths_to(T.DoubleType, kind), T.VariantType()))
        for name, kind in types.items()
    }


def cast_written(
    rows: DataFrame,
    types: Mapping[str, T.DataType],
    *,
    bad_record: str | None,
    record_of: Callable[[Column], Column],
) -> DataFrame:
    """Rows with the columns `types` (by name in lower case), read as they are written, in them.

    A value that would change its meaning fails the read. Where there is a column `bad_record` it is
    null instead, and the row is a bad one with the text that `record_of` makes of its columns.
    """
    columns: list[Column] = []
    faults: list[Column] = []
    for item in rows.schema:
        value, kind = column_named(item.name), types.get(item.name.lower())
        if kind is None:
            columns.append(value)
            continue
        is_bad, typed, kind = _checked(value, item.dataType, kind)
        said = f"a value of column {item.name} is not written as a {kind.simpleString()} is"
        refusal = F.raise_error(F.lit(said)).cast(kind)
        bad = refusal if bad_record is None else F.lit(None).cast(kind)
        columns.append(F.when(is_bad, bad).otherwise(typed).alias(item.name))
        faults.append(is_bad)
    if not faults or bad_record is None:
        return rows.select(*columns)
    own = [name for name in rows.columns if name not in (ARRIVAL, bad_record)]
    record = record_of(F.struct(*[column_named(name) for name in own]))
    is_bad = F.array_contains(F.array(*faults), True)
    told = F.coalesce(F.col(bad_record), F.when(is_bad, record)).alias(bad_record)
    named = zip(rows.columns, columns, strict=True)
    return rows.select(*[told if name == bad_record else column for name, column in named])


def _checked(
    value: Column, found: T.DataType, kind: T.DataType
) -> tuple[Column, Column, T.DataType]:
    """Whether a value changes its meaning; the value in its type; that type, with the parts that
    only these files have."""
    if isinstance(found, T.StringType):
        is_kept = value.try_cast(kind).isNotNull() & is_text_kept(value, kind)
        return _is_changed(value.isNull(), is_kept), value.try_cast(kind), kind
    paths = list(paths_to(T.VariantType, found))
    is_bad = F.lit(False)
    for path in paths:
        is_bad = is_bad | any_at(value, path, _is_changed_number)
    typed = with_types(found, dict.fromkeys(paths, T.DoubleType()))
    return is_bad, cast_parts(value, found, kind, T.VariantType), typed


def _is_changed_number(value: Column) -> Column:
    is_null = value.isNull() | F.is_variant_null(value)
    return _is_changed(is_null, value.try_cast("double").isNotNull() & is_number_kept(value))


def _is_changed(is_null: Column, is_kept: Column) -> Column:
    return ~(is_null | F.coalesce(is_kept, F.lit(False)))
