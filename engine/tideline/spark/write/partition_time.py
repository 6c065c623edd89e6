"""Partition paths of the timestamp-based key generator, as Spark column expressions.

The steps are those of `tideline.hudi.keys.partition_time`, which does the same in Arrow.
"""

from __future__ import annotations

import datetime as dt
import re

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tideline.errors import ConfigError
from tideline.hudi.keys.key_generator import TimestampFormat
from tideline.hudi.keys.key_text import MILLIS_MAX, MILLIS_MIN
from tideline.hudi.keys.partition_time import MILLIS_PER_UNIT, UNITS_PER_MILLI, UTC

# Joda's pattern has one letter for what Java has two of: +01:00 and +0100. Both read Z.
_OFFSETS = ("XXX", "XX")
_LOCAL_MIN = dt.datetime(1, 1, 1)
_LOCAL_MAX = dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)
_FRACTION_DIGITS = 3

# Quoted text, or a run of one letter.
_PATTERN_PART = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*")
# Joda's letters that mean something else in Java, or nothing.
_UNKNOWN_LETTERS = frozenset("CxweGz")


def epoch_micros(column: Column, kind: T.DataType) -> Column:
    """Microseconds since the epoch; of a timestamp without a zone as if it were UTC."""
    if isinstance(kind, T.TimestampNTZType):
        # Through text, because a cast would read it in the session's zone.
        column = F.concat(column.cast("string"), F.lit("Z")).cast("timestamp")
    return F.unix_micros(column)


def cut_to_millis(moment: Column) -> Column:
    """A moment without what it has beyond milliseconds, cut towards the epoch as in Hudi."""
    return F.timestamp_millis(F.call_function("div", F.unix_micros(moment), F.lit(1_000)))


def formatted_time(
    column: Column, kind: T.DataType, settings: TimestampFormat, *, moments: bool
) -> Column:
    """The partition path level for a column of type `kind`, null where there is none.

    `moments`: timestamps are taken as they are, not as a number. Raises ConfigError for a column
    or a pattern that the settings do not fit.
    """
    if moments and isinstance(kind, T.TimestampType):
        number = 1 if settings.is_text else MILLIS_PER_UNIT.get(settings.unit, 0)
        one_unit = F.timestamp_millis(F.lit(number))
        local = _in_range(_local_time(F.coalesce(cut_to_millis(column), one_unit), settings))
    elif settings.is_text:
        local = _read_text(column, kind, settings)
    else:
        local = _in_range(_read_number(column, kind, settings))
    return F.date_format(local, _cut_fractions(_java_pattern(settings.output_format)))


def _read_number(column: Column, kind: T.DataType, settings: TimestampFormat) -> Column:
    if isinstance(kind, T.DateType):
        number = F.unix_date(column).cast("bigint")
    elif isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
        number = epoch_micros(column, kind)
    elif isinstance(kind, T.NumericType):
        number = column.try_cast("bigint")
    else:
        raise _wrong_type(kind, settings)
    number = F.when(column.isNull(), F.lit(1).cast("bigint")).otherwise(number)
    if settings.unit in MILLIS_PER_UNIT:
        millis = F.try_multiply(number, F.lit(MILLIS_PER_UNIT[settings.unit]).cast("bigint"))
    else:
        millis = F.call_function("div", number, F.lit(UNITS_PER_MILLI[settings.unit]))
    in_range = millis.between(F.lit(MILLIS_MIN), F.lit(MILLIS_MAX))
    return _local_time(F.when(in_range, F.timestamp_millis(millis)), settings)


def _read_text(column: Column, kind: T.DataType, settings: TimestampFormat) -> Column:
    if not isinstance(kind, T.StringType):
        raise _wrong_type(kind, settings)
    first = settings.input_formats[0]
    zone = UTC if _has_offset(first) else settings.input_zone or settings.output_zone or UTC
    one_milli = _in_zone(F.timestamp_millis(F.lit(1)), zone)
    text = F.coalesce(column, F.date_format(one_milli, _java_pattern(first, offset="'Z'")))
    read = [
        _read_format(text, joda, offset, settings)
        for joda in settings.input_formats
        for offset in (_OFFSETS if _has_offset(joda) else ("",))
    ]
    return F.coalesce(*read)


def _read_format(text: Column, joda: str, offset: str, settings: TimestampFormat) -> Column:
    """Local time in the output zone, null where the text is not of this format."""
    pattern = _java_pattern(joda, offset=offset)
    moment = F.try_to_timestamp(text, F.lit(pattern))
    written = F.when(moment.isNotNull(), F.to_timestamp_ntz(text, F.lit(pattern)))
    as_written = _in_range(written)
    zone = settings.output_zone or settings.input_zone
    if zone is None:
        return as_written
    if offset:
        return _in_range(_in_zone(F.when(as_written.isNotNull(), moment), zone))
    local = F.convert_timezone(F.lit(settings.input_zone or UTC), F.lit(zone), as_written)
    return _in_range(local)


def _in_range(local: Column) -> Column:
    """The time, null outside the years 1 to 9999."""
    return F.when(local.between(_local(_LOCAL_MIN), _local(_LOCAL_MAX)), local)


def _local(time: dt.datetime) -> Column:
    return F.lit(time.isoformat(" ")).cast("timestamp_ntz")


def _cut_fractions(java: str) -> str:
    """The pattern with zeros for what a fraction has beyond milliseconds: Joda has no more."""

    def cut(part: re.Match[str]) -> str:
        if part[1] != "S":
            return part[0]
        kept = part[0][:_FRACTION_DIGITS]
        return kept.ljust(len(part[0]), "0")

    return _PATTERN_PART.sub(cut, java)


def _local_time(moment: Column, settings: TimestampFormat) -> Column:
    return _in_zone(moment, settings.output_zone or UTC)


def _in_zone(moment: Column, zone: str) -> Column:
    return F.convert_timezone(F.current_timezone(), F.lit(zone), moment.cast("timestamp_ntz"))


def _has_offset(joda: str) -> bool:
    return any(part[1] == "Z" for part in _PATTERN_PART.finditer(joda))


def _java_pattern(joda: str, *, offset: str = "") -> str:
    """The same pattern in Java's letters, with `offset` for the zone's.

    Raises ConfigError for a letter that has no equal there.
    """

    def translate(part: re.Match[str]) -> str:
        letter = part[1]
        if letter is None:
            return part[0]
        if letter in _UNKNOWN_LETTERS or (letter == "Z" and not offset):
            raise ConfigError(f"letter {letter!r} in a date format is not supported", value=joda)
        if letter == "Z":
            return offset
        return part[0].lower() if letter == "Y" else part[0]

    return _PATTERN_PART.sub(translate, joda)


def _wrong_type(kind: T.DataType, settings: TimestampFormat) -> ConfigError:
    wanted = "text" if settings.is_text else "a number, date or timestamp"
    return ConfigError(
        f"a partition column of time type {settings.type.value} must be {wanted}",
        value=kind.simpleString(),
    )
