"""Numbers of retyped columns as text or decimals, digit for digit as Java has them.

Hudi makes both from Java's text of a number. Arrow writes others (`1e+10` for `1.0E10`) and makes
decimals of the binary fraction. Python sees every distinct value once, and only in files that are
older than the new type.
Source: Hudi's HoodieAvroUtils.rewritePrimaryTypeWithDiffSchemaType, Java's Double.toString.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
from pyarrow import types

_PLAIN_FROM, _PLAIN_BELOW = -3, 7
"""Powers of ten between which Java writes no exponent."""

_ROUNDING = Context(prec=100, rounding=ROUND_HALF_UP)


def number_texts(array: pa.Array) -> pa.Array:
    """Floating numbers as text."""
    return _of_distinct(array, _text, pa.string())


def decimals(array: pa.Array, wanted: pa.Decimal128Type) -> pa.Array:
    """Numbers, or numbers as text, as decimals, rounded half up.

    Raises ArrowInvalid for text that is no number and for a number with too many digits.
    """
    last_digit = Decimal(1).scaleb(-wanted.scale)

    def rounded(value: Any) -> Decimal:
        try:
            return Decimal(str(value)).quantize(last_digit, context=_ROUNDING)
        except InvalidOperation as error:
            raise pa.ArrowInvalid(f"{value} is not of type {wanted}") from error

    return _of_distinct(array, rounded, wanted)


def _of_distinct(
    array: pa.Array, convert: Callable[[Any], object], wanted: pa.DataType
) -> pa.Array:
    encoded = array.dictionary_encode()
    distinct = encoded.dictionary
    # Iterated as numpy's, the shorter kind keeps its own few digits.
    values = distinct.to_numpy() if types.is_float32(distinct.type) else distinct.to_pylist()
    return pa.array([convert(value) for value in values], wanted).take(encoded.indices)


def _text(value: Any) -> str:
    number = Decimal(str(value))
    if number.is_nan():
        return "NaN"
    sign = "-" if number.is_signed() else ""
    if number.is_infinite():
        return f"{sign}Infinity"
    if number == 0:
        return f"{sign}0.0"
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0")
    power = number.adjusted()
    if not _PLAIN_FROM <= power < _PLAIN_BELOW:
        return f"{sign}{digits[0]}.{digits[1:] or 0}E{power}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    digits = digits.ljust(power + 1, "0")
    return f"{sign}{digits[: power + 1]}.{digits[power + 1 :] or 0}"
