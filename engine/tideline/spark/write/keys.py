"""Record key and partition path as Spark column expressions; no row passes through Python.

Values are spelled as Hudi spells them (Java's toString): dates as 2024-01-05, timestamps as raw
microseconds unless the table says otherwise, binary as hex. Partition paths formatted from a time
are in `partition_time`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tideline.errors import ConfigError
from tideline.hudi.keys.key_generator import (
    DEFAULT_PARTITION,
    EMPTY_KEY,
    ESCAPED_CHARACTERS,
    NULL_KEY,
    KeyGenerator,
    PartitionField,
)
from tideline.hudi.keys.key_text import (
    MILLIS_MAX,
    SURE_FROM,
    SURE_POWERS_FROM,
    TEXT_MILLIS_MIN,
    WHOLE_DOUBLES,
    WHOLE_FLOATS,
)
from tideline.spark.quoting import quoted
from tideline.spark.write.partition_time import cut_to_millis, epoch_micros, formatted_time

# With no more digits after the point Java never prints a decimal with an exponent.
_PLAIN_DECIMAL_SCALE_MAX = 6


def record_key_column(keys: KeyGenerator, schema: T.StructType) -> Column:
    """The record key, null where a row has none: a null or empty simple key, nothing but nulls and
    empties in a qualified one, or a number with two texts. Raises ConfigError for a key field that
    is not in the schema.
    """
    as_text = keys.timestamps_as_text
    texts = [_text(name, field_type(schema, name), as_text=as_text) for name in keys.record_fields]
    is_sure = ~_any_with_two_texts(schema, keys.record_fields, as_text=as_text)
    if not keys.qualified and len(texts) == 1:
        return F.when((texts[0] != "") & is_sure, texts[0])
    parts = [
        F.concat(
            F.lit(f"{name}:"),
            F.when(text == "", F.lit(EMPTY_KEY)).otherwise(F.coalesce(text, F.lit(NULL_KEY))),
        )
        for name, text in zip(keys.record_fields, texts, strict=True)
    ]
    has_value = F.lit(False)
    for text in texts:
        has_value = has_value | F.coalesce(text != "", F.lit(False))
    return F.when(has_value & is_sure, F.concat_ws(",", *parts))


def partition_path_column(keys: KeyGenerator, schema: T.StructType) -> Column:
    """The partition path, `""` in a table without partitions.

    Null where a time is to be formatted and the value is none, and for numbers with two texts.
    Raises ConfigError for a partition field that is not in the schema or of a type that makes no
    path.
    """
    if not keys.partition_fields:
        return F.lit("")
    levels: list[Column] = []
    for part in keys.partition_fields:
        level = _partition_level(part, schema, keys)
        if keys.hive_style:
            level = F.concat(F.lit(f"{part.field}="), level)
        levels += [F.lit("/"), level]
    return levels[1] if len(levels) == 2 else F.concat(*levels[1:])


def column_of(name: str) -> Column:
    """A column, or a field nested in one, by its dotted name."""
    return F.col(".".join(quoted(step) for step in name.split(".")))


def field_type(schema: T.StructType, name: str) -> T.DataType:
    """The type of a column or nested field, in any case. Raises ConfigError when absent."""
    current: T.DataType = schema
    for step in name.split("."):
        match = None
        if isinstance(current, T.StructType):
            match = next((f for f in current.fields if f.name.lower() == step.lower()), None)
        if match is None:
            raise ConfigError(f"key field {name!r} is not a column of the input", value=name)
        current = match.dataType
    return current


def with_two_texts(keys: KeyGenerator, schema: T.StructType) -> Column:
    """Whether a row has a value with two texts, and with it no key or no path."""
    parts = keys.plain_partition_fields
    as_text = keys.paths_have_times_as_text or keys.paths_are_of_sql
    in_key = _any_with_two_texts(schema, keys.record_fields, as_text=keys.timestamps_as_text)
    return in_key | _any_with_two_texts(schema, parts, as_text=as_text)


def _any_with_two_texts(schema: T.StructType, names: Iterable[str], *, as_text: bool) -> Column:
    found = F.lit(False)
    for name in names:
        kind, column = field_type(schema, name), column_of(name)
        if isinstance(kind, (T.FloatType, T.DoubleType)):
            found |= F.coalesce(_is_printed_in_two_ways(column, kind), F.lit(False))
        elif as_text and isinstance(kind, T.TimestampType):
            first, last = F.timestamp_millis(F.lit(TEXT_MILLIS_MIN)), _last_moment()
            found |= F.coalesce(~cut_to_millis(column).between(first, last), F.lit(False))
    return found


def _is_printed_in_two_ways(column: Column, kind: T.DataType) -> Column:
    """As `tideline.hudi.keys.key_text.has_two_texts`."""
    is_float = isinstance(kind, T.FloatType)
    size = F.abs(column.cast("double"))
    # Of a power of two the logarithm is next to a whole number; the power itself is exact.
    is_power = F.pow(F.lit(2.0), F.rint(F.log2(size))) == size
    is_power &= (size < SURE_POWERS_FROM) | (size >= SURE_FROM)
    is_whole = (size >= (WHOLE_FLOATS if is_float else WHOLE_DOUBLES)) & (size < SURE_FROM)
    smallest = float(np.finfo(np.float32 if is_float else np.float64).tiny)
    is_known = (size > 0) & (size < float("inf"))
    return is_known & (is_power | is_whole | (size < smallest))


def _last_moment() -> Column:
    return F.timestamp_millis(F.lit(MILLIS_MAX))


def _text(name: str, kind: T.DataType, *, as_text: bool) -> Column:
    column = column_of(name)
    if isinstance(kind, T.StringType):
        return column
    if isinstance(kind, T.BinaryType):
        return F.lower(F.hex(column))
    if isinstance(kind, T.DecimalType) and kind.scale > _PLAIN_DECIMAL_SCALE_MAX:
        # A cast would never use an exponent; this is Java's BigDecimal.toString.
        return F.when(column.isNotNull(), F.format_string("%s", column))
    if isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
        if not as_text or isinstance(kind, T.TimestampNTZType):
            return epoch_micros(column, kind).cast("string")
        text = cut_to_millis(column).cast("string")
        return F.when(text.contains("."), text).otherwise(F.concat(text, F.lit(".0")))
    if isinstance(kind, (T.ArrayType, T.MapType, T.StructType)):
        raise ConfigError(f"key field {name!r} has a nested type", value=kind.simpleString())
    return column.cast("string")


def _partition_level(part: PartitionField, schema: T.StructType, keys: KeyGenerator) -> Column:
    """One level of the path, without its hive style prefix."""
    kind = field_type(schema, part.field)
    if part.timestamp is not None:
        text = formatted_time(
            column_of(part.field), kind, part.timestamp, moments=keys.paths_have_times_as_text
        )
        return _encode(text) if keys.url_encode else text
    if keys.paths_are_of_sql and isinstance(kind, T.TimestampType):
        column = column_of(part.field)
        moment = cut_to_millis(column)
        is_known = moment.between(F.timestamp_millis(F.lit(TEXT_MILLIS_MIN)), _last_moment())
        text = F.date_format(F.when(is_known, moment), "yyyy-MM-dd HH:mm:ss")
        return F.when(column.isNull(), F.lit(DEFAULT_PARTITION)).otherwise(_encode(text))
    as_text = keys.paths_have_times_as_text
    text = _text(part.field, kind, as_text=as_text)
    level = F.when(F.coalesce(text, F.lit("")) == "", F.lit(DEFAULT_PARTITION)).otherwise(
        _encode(text) if keys.url_encode else text
    )
    return F.when(~_any_with_two_texts(schema, (part.field,), as_text=as_text), level)


def _encode(text: Column) -> Column:
    """Escape as %XX; the percent sign first, so that no escape is escaped again."""
    escaped = text
    for character in sorted(ESCAPED_CHARACTERS, key=lambda c: c != "%"):
        escaped = F.replace(escaped, F.lit(character), F.lit(f"%{ord(character):02X}"))
    needs_escape = "[" + "".join(f"\\x{ord(c):02X}" for c in ESCAPED_CHARACTERS) + "]"
    return F.when(text.rlike(needs_escape), escaped).otherwise(text)
