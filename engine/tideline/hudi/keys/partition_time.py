"""Partition paths of the timestamp-based key generator, in Arrow.

1. A number (of a date its days, of a timestamp its microseconds) counts units since the epoch and
   is cut to milliseconds. Where timestamps are to be read as text, they are moments themselves.
2. Text is read by the first input format that fits it whole. It is a moment when the format has an
   offset, else local time in the input zone.
3. A null stands for one unit after the epoch, in text one millisecond.
4. The moment is formatted in the output zone. What cannot be read, or lies outside the years 1 to
   9999, has no path: null.

Each text, and each step of the output's finest field, is read or formatted once.
`tideline.spark.write.partition_time` does the same in Spark's expressions.
Source: Hudi's TimestampBasedAvroKeyGenerator, HoodieDateTimeParser.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.errors import ConfigError
from tideline.hudi.keys.key_generator import TimestampFormat, TimeUnit
from tideline.hudi.keys.key_text import (
    MICROS_PER_MILLI,
    MILLIS_MAX,
    MILLIS_MIN,
    cut_towards_epoch,
)
from tideline.hudi.keys.time_format import Millis, TimeFormat
from tideline.hudi.keys.time_parse import Flags, TimeParse
from tideline.hudi.keys.zone_offsets import ZoneOffsets

UTC = "UTC"
MILLIS_PER_UNIT = {
    TimeUnit.DAYS: 86_400_000,
    TimeUnit.HOURS: 3_600_000,
    TimeUnit.MINUTES: 60_000,
    TimeUnit.SECONDS: 1_000,
    TimeUnit.MILLISECONDS: 1,
}
UNITS_PER_MILLI = {TimeUnit.MICROSECONDS: 1_000, TimeUnit.NANOSECONDS: 1_000_000}
_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1
_DECIMAL = pa.decimal128(38, 0)


def unknown_pattern(settings: TimestampFormat) -> str | None:
    """A pattern or zone that is not spelled here, in words; None where all of it is."""
    if TimeFormat.of(settings.output_format) is None:
        return f"output format {settings.output_format!r}"
    if settings.is_text:
        read = (joda for joda in settings.input_formats if TimeParse.of(joda) is None)
        unread = next(read, None)
        if unread is not None:
            return f"input format {unread!r}"
    zones = [name for name in (settings.input_zone, settings.output_zone) if name is not None]
    unknown = next((name for name in zones if ZoneOffsets.of(name) is None), None)
    return None if unknown is None else f"time zone {unknown!r}"


def formatted_times(
    column: pa.Array, settings: TimestampFormat, *, moments: bool
) -> pa.DictionaryArray:
    """The partition path level of every value, null where there is none.

    `moments`: timestamps are taken as they are, not as a number. Raises ConfigError for a column
    that the settings do not fit, and for what `unknown_pattern` names.
    """
    if settings.is_text and not (moments and _is_moment(column)):
        if not types.is_string(column.type):
            raise _wrong_type(column.type, settings)
        texts = column.dictionary_encode()
        local, is_time = _read_texts(texts.dictionary, settings)
        spelled = _formatted(local, is_time, settings)
        absent = pa.scalar(len(texts.dictionary), pa.int32())
        return spelled.take(pc.fill_null(texts.indices, absent))
    millis, is_time = _milliseconds(column, settings, moments=moments)
    return _formatted(_in_zone(millis, settings.output_zone or UTC), is_time, settings)


def _formatted(local: Millis, is_time: Flags, settings: TimestampFormat) -> pa.DictionaryArray:
    """Local times as the output has them."""
    output = TimeFormat.of(settings.output_format)
    if output is None:
        raise _unknown(settings)
    is_time = is_time & _in_range(local)
    steps = local // output.step_millis * output.step_millis
    encoded = pa.array(steps, mask=~is_time).dictionary_encode()
    texts = output.texts(encoded.dictionary.to_numpy())
    return pa.DictionaryArray.from_arrays(encoded.indices, texts)


def _milliseconds(
    column: pa.Array, settings: TimestampFormat, *, moments: bool
) -> tuple[Millis, Flags]:
    """Since the epoch, and the values for which it is known."""
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    if moments and _is_moment(column):
        micros = _filled(column.cast(pa.timestamp("us", UTC)).cast(pa.int64()))
        unit_millis = 1 if settings.is_text else MILLIS_PER_UNIT.get(settings.unit, 0)
        millis = np.where(is_null, unit_millis, cut_towards_epoch(micros, MICROS_PER_MILLI))
        return millis, np.ones(len(millis), np.bool_)
    whole = _whole_numbers(column, settings)
    is_known = is_null | whole.is_valid().to_numpy(zero_copy_only=False)
    numbers = np.where(is_null, 1, _filled(whole))
    if settings.unit in MILLIS_PER_UNIT:
        per_unit = MILLIS_PER_UNIT[settings.unit]
        is_known &= (numbers >= MILLIS_MIN // per_unit) & (numbers <= MILLIS_MAX // per_unit)
        millis = np.where(is_known, numbers, 0) * per_unit
    else:
        millis = cut_towards_epoch(numbers, UNITS_PER_MILLI[settings.unit])
    return millis, is_known & _in_range(millis)


def _whole_numbers(column: pa.Array, settings: TimestampFormat) -> pa.Array:
    """What a column counts, null where it is no number of 64 bits."""
    kind = column.type
    if types.is_date32(kind):
        return column.cast(pa.int32()).cast(pa.int64())
    if types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    if types.is_integer(kind):
        return column.cast(pa.int64())
    if types.is_floating(kind):
        whole = pc.trunc(column.cast(pa.float64()))
        # The largest number of 64 bits is none of these, the next one is.
        fits = pc.and_(pc.greater_equal(whole, float(_LONG_MIN)), pc.less(whole, float(1 << 63)))
        return _where(fits, whole).cast(pa.int64())
    if types.is_decimal(kind):
        whole = pc.trunc(column).cast(_DECIMAL)
        low, high = (pa.scalar(bound).cast(_DECIMAL) for bound in (_LONG_MIN, _LONG_MAX))
        fits = pc.and_(pc.greater_equal(whole, low), pc.less_equal(whole, high))
        return _where(fits, whole).cast(pa.int64())
    raise _wrong_type(kind, settings)


def _read_texts(texts: pa.Array, settings: TimestampFormat) -> tuple[Millis, Flags]:
    """Local times in the output zone, the last of them that of a null."""
    readers = [TimeParse.of(joda) for joda in settings.input_formats]
    texts = pa.concat_arrays([texts, _one_millisecond(settings)])
    found, is_time = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.bool_)
    for reader in readers:
        if reader is None:
            raise _unknown(settings)
        unread = np.flatnonzero(~is_time)
        written, offset, fits = reader.times(texts.take(pa.array(unread)))
        local = _local_times(written[fits], offset[fits], settings, has_offset=reader.has_offset)
        fits[fits] = _in_range(local)
        found[unread[fits]] = local[_in_range(local)]
        is_time[unread[fits]] = True
    return found, is_time


def _local_times(
    written: Millis, offset: Millis, settings: TimestampFormat, *, has_offset: bool
) -> Millis:
    """In the output zone; without any the time as it is written."""
    zone = settings.output_zone or settings.input_zone
    if zone is None:
        return written
    if not has_offset:
        offset = _zone(settings.input_zone or UTC).of_local_times(written)
    return _in_zone(written - offset, zone)


def _one_millisecond(settings: TimestampFormat) -> pa.Array:
    """A null, as the text that the first input format has for it."""
    joda = settings.input_formats[0]
    reader, printer = TimeParse.of(joda), TimeFormat.of(joda, offset="Z")
    if reader is None or printer is None:
        raise _unknown(settings)
    zone = UTC if reader.has_offset else settings.input_zone or settings.output_zone or UTC
    return printer.texts(_in_zone(np.array([1], np.int64), zone), offset="Z")


def _in_zone(millis: Millis, name: str) -> Millis:
    return millis + _zone(name).of_moments(millis)


def _zone(name: str) -> ZoneOffsets:
    zone = ZoneOffsets.of(name)
    if zone is None:
        raise ConfigError("this time zone of partition paths is not known", value=name)
    return zone


def _in_range(millis: Millis) -> Flags:
    return (millis >= MILLIS_MIN) & (millis <= MILLIS_MAX)


def _where(fits: pa.Array, numbers: pa.Array) -> pa.Array:
    return pc.if_else(fits, numbers, pa.scalar(None, numbers.type))


def _filled(numbers: pa.Array) -> Millis:
    filled: Millis = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False)
    return filled


def _is_moment(column: pa.Array) -> bool:
    return types.is_timestamp(column.type) and column.type.tz is not None


def _unknown(settings: TimestampFormat) -> ConfigError:
    return ConfigError("partition paths are not spelled here", value=unknown_pattern(settings))


def _wrong_type(kind: pa.DataType, settings: TimestampFormat) -> ConfigError:
    wanted = "text" if settings.is_text else "a number, date or timestamp"
    return ConfigError(
        f"a partition column of time type {settings.type.value} must be {wanted}", value=str(kind)
    )
