"""Values as the text that record keys and partition paths are made of, in Arrow.

Values are spelled as Hudi spells them (Java's toString): dates as 2024-01-05, timestamps as raw
microseconds unless the table says otherwise, binary as hex, floating numbers with Java's exponents.
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
MILLIS_MIN, MILLIS_MAX = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999."""
_CYCLE_YEARS = 400
_CYCLE = 146_097 * 86_400_000
"""In milliseconds, from 1970 as from any other year."""
MICROS_PER_MILLI = 1_000


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
    if types.is_binary(kind) or types.is_fixed_size_binary(kind):
        return _hex(column)
    if types.is_nested(kind):
        raise ConfigError(f"key field {name!r} has a nested type", value=str(kind))
    return column.cast(pa.string())


def cut_towards_epoch(numbers: Numbers, unit: int) -> Numbers:
    """How many whole units there are, of a number below zero too, as Java divides."""
    whole: Numbers = numbers // unit + ((numbers < 0) & (numbers % unit != 0))
    return whole


def _time_texts(column: pa.Array) -> pa.Array:
    """As java.sql.Timestamp has it in UTC: no more digits of a second than there are, but one.

    Hudi cuts to milliseconds. Years beyond 9999 have a plus sign, and all are of the Gregorian
    calendar, as in Spark.
    """
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    known = pc.fill_null(micros, 0).to_numpy(zero_copy_only=False)
    known = cut_towards_epoch(known, MICROS_PER_MILLI)
    cycles = np.where((known < MILLIS_MIN) | (known > MILLIS_MAX), known // _CYCLE, 0)
    within = pa.array(known - cycles * _CYCLE, mask=column.is_null().to_numpy(zero_copy_only=False))
    texts = within.cast(pa.timestamp("ms")).cast(pa.string())
    texts = pc.replace_substring_regex(texts, r"(\.\d+?)0+$", r"\1")
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
