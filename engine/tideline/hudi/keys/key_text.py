"""Values as the text that record keys and partition paths are made of, in Arrow.

Values are spelled as Hudi spells them (Java's toString): dates as 2024-01-05, timestamps as raw
microseconds unless the table says otherwise, binary as hex, floating numbers with Java's exponents.
Some values have two texts, and make no key, as the text of one program is not found by the next:
floating numbers, to which Java before 19 gives more digits than they need, and times as text where
Hudi's calendar is another one than Spark's, or has no sign.
Source: Hudi `HoodieAvroUtils.getNestedFieldValAsString`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.errors import ConfigError
from tideline.hudi.table.retyped_number import number_texts

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
MILLIS_MIN, MILLIS_MAX = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999."""
TEXT_MILLIS_MIN = -12_219_292_800_000
"""From 1582-10-15 on all calendars are one."""
_CYCLE_YEARS = 400
_CYCLE_DAYS = 146_097
"""From 1970 as from any other year."""
_MILLIS_PER_DAY = 86_400_000
MICROS_PER_MILLI, _MILLIS_PER_SECOND = 1_000, 1_000
WHOLE_FLOATS, WHOLE_DOUBLES = 2.0**24, 2.0**53
"""From here on floating numbers are whole ones, with gaps between them."""
SURE_FROM, SURE_POWERS_FROM = 2.0**90, 2.0**-20
"""From the first on two texts are those of powers of two alone, as they are below the second."""
TWO_TEXTS = (
    "a value with two texts in the record key or the partition path: a floating number that "
    "versions of Java print in two ways, or, where times are text, one before 1582-10-15 or after "
    "the year 9999"
)


def key_texts(column: pa.Array, name: str, *, timestamps_as_text: bool = False) -> pa.Array:
    """The texts of a column's values, null for null.

    `timestamps_as_text`: those that are moments as `2024-01-05 18:00:00.0`. Raises ConfigError for
    a type that makes no key.
    """
    kind = column.type
    if types.is_string(kind):
        return column
    if types.is_timestamp(kind):
        if timestamps_as_text and kind.tz is not None:
            return _time_texts(column)
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).cast(pa.string())
    if types.is_floating(kind):
        return number_texts(column)
    if types.is_date32(kind):
        return _day_texts(column)
    if types.is_binary(kind) or types.is_fixed_size_binary(kind):
        return _hex(column)
    if types.is_nested(kind):
        raise ConfigError(f"key field {name!r} has a nested type", value=str(kind))
    return column.cast(pa.string())


def cut_towards_epoch(numbers: Numbers, unit: int) -> Numbers:
    """How many whole units there are, of a number below zero too, as Java divides."""
    whole: Numbers = numbers // unit + ((numbers < 0) & (numbers % unit != 0))
    return whole


def texts_of_sql(column: pa.Array) -> pa.Array:
    """Moments as `2024-01-05 18:00:00`: cut to milliseconds as in other texts, then the second that
    they are in; `""` for null, null where they have two texts. Source: Hudi's SqlKeyGenerator."""
    millis = _milliseconds(column)
    is_beyond = (millis < TEXT_MILLIS_MIN) | (millis > MILLIS_MAX)
    seconds = pa.array(millis // _MILLIS_PER_SECOND, mask=is_beyond).cast(pa.timestamp("s"))
    return pc.if_else(column.is_null(), "", seconds.cast(pa.string()))


def has_two_texts(column: pa.Array, *, timestamps_as_text: bool) -> Flags:
    """Which values may have another text by another program: subnormal numbers, large whole ones
    and powers of two that are not near 1; moments as text that are very old or far."""
    kind = column.type
    if timestamps_as_text and types.is_timestamp(kind) and kind.tz is not None:
        millis = _milliseconds(column)
        outside: Flags = (millis < TEXT_MILLIS_MIN) | (millis > MILLIS_MAX)
        return outside
    if not types.is_floating(kind):
        return np.zeros(len(column), np.bool_)
    sizes = np.abs(column.fill_null(0).to_numpy(zero_copy_only=False))
    is_known = np.isfinite(sizes) & (sizes > 0)
    whole = WHOLE_FLOATS if types.is_float32(kind) else WHOLE_DOUBLES
    is_power = np.frexp(sizes)[0] == 0.5
    is_power &= (sizes < SURE_POWERS_FROM) | (sizes >= SURE_FROM)
    found: Flags = is_known & (
        is_power | (sizes < np.finfo(sizes.dtype).tiny) | ((sizes >= whole) & (sizes < SURE_FROM))
    )
    return found


def _time_texts(column: pa.Array) -> pa.Array:
    """As java.sql.Timestamp has it in UTC: no more digits of a second than there are, but one."""
    known = _milliseconds(column)
    within = (known >= TEXT_MILLIS_MIN) & (known <= MILLIS_MAX)
    mask = column.is_null().to_numpy(zero_copy_only=False) | ~within
    texts = pa.array(known, mask=mask).cast(pa.timestamp("ms")).cast(pa.string())
    return pc.replace_substring_regex(texts, r"(\.\d+?)0+$", r"\1")


def _milliseconds(column: pa.Array) -> Numbers:
    """Moments since the epoch, cut as Hudi cuts them; 0 for null."""
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    known = pc.fill_null(micros, 0).to_numpy(zero_copy_only=False)
    return cut_towards_epoch(known, MICROS_PER_MILLI)


def _day_texts(column: pa.Array) -> pa.Array:
    """As java.time.LocalDate has it: years beyond 9999 have a plus sign."""
    days = column.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    is_beyond = (days < MILLIS_MIN // _MILLIS_PER_DAY) | (days > MILLIS_MAX // _MILLIS_PER_DAY)
    cycles = np.where(is_beyond, days // _CYCLE_DAYS, 0)
    mask = column.is_null().to_numpy(zero_copy_only=False)
    within = pa.array(days - cycles * _CYCLE_DAYS, pa.int32(), mask=mask)
    texts = within.cast(pa.date32()).cast(pa.string())
    return _in_cycles(texts, cycles) if cycles.any() else texts


def _in_cycles(texts: pa.Array, cycles: Numbers) -> pa.Array:
    """The texts, with as many times 400 years more, whose days are the same."""
    years = pc.utf8_slice_codeunits(texts, 0, 4).cast(pa.int64())
    years = pc.add(years, pa.array(cycles * _CYCLE_YEARS))
    digits = pc.utf8_lpad(pc.abs(years).cast(pa.string()), 4, "0")
    sign = pc.if_else(pc.less(years, 0), "-", pc.if_else(pc.greater(years, 9999), "+", ""))
    moved = pc.binary_join_element_wise(sign, digits, pc.utf8_slice_codeunits(texts, 4), "")
    return pc.if_else(pa.array(cycles != 0), moved, texts)


def _hex(column: pa.Array) -> pa.Array:
    distinct = column.dictionary_encode()
    texts = [None if value is None else value.hex() for value in distinct.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(distinct.indices)
