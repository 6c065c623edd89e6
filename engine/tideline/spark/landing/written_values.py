"""Later values of columns whose types were inferred: taken where their meaning stays.

A type that nobody declared is no word on other spellings. In csv `007` is a text, which a reader of
whole numbers makes 7; in JSON a double rounds a number of twenty digits. Such columns are read as
they are written (csv as text, JSON as VARIANT), and cast where the first batch would have given the
same type (`tideline.spark.landing.column_inference`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tideline.hudi.write.batch_rules import ARRIVAL
from tideline.spark.landing.column_inference import is_number_kept, is_text_kept
from tideline.spark.quoting import column_named

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
    """Those of the types that may change a number of JSON."""
    return {name: kind for name, kind in types.items() if isinstance(kind, T.DoubleType)}


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
        is_bad, typed = _is_bad(value, item.dataType, kind), value.try_cast(kind)
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


def _is_bad(value: Column, found: T.DataType, kind: T.DataType) -> Column:
    if isinstance(found, T.VariantType):
        is_null, is_kept = value.isNull() | F.is_variant_null(value), is_number_kept(value)
    else:
        is_null, is_kept = value.isNull(), is_text_kept(value, kind)
    return ~(is_null | (value.try_cast(kind).isNotNull() & F.coalesce(is_kept, F.lit(False))))
